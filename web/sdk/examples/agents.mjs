// The two agents of the examples. Their keys are made with `cowrite keys create --agent alpha --role editor`.

import { connect } from "cowrite";
import WebSocket from "ws"; // Node 20 has none of its own; browsers and later versions do

const url = process.env.COWRITE_URL ?? "http://127.0.0.1:8080";

export const alpha = connect({ url, key: process.env.ALPHA_KEY ?? "", WebSocket });
export const beta = connect({ url, key: process.env.BETA_KEY ?? "", WebSocket });
