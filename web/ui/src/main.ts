import "./styles/base.css"
import "./styles/prose.css"
import { mount } from "svelte"
import App from "./components/App.svelte"

mount(App, { target: document.getElementById("app")! })
