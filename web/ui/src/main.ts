import "./styles/base.css"
import "./styles/documents.css"
import "./styles/prose.css"
import { mount } from "svelte"
import App from "./components/App.svelte"
import { guardFocus } from "./lib/focus"

guardFocus()
mount(App, { target: document.getElementById("app")! })
