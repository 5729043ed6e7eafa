/** The dashboard: a program in the browser that sees and does what the public API offers, and nothing else. */
import './style/main.css'
import { render } from 'preact'
import { startRouting } from './browser/router.ts'
import { startTheme } from './browser/theme.ts'
import { App } from './views/app.tsx'

startTheme()
startRouting()
const root = document.getElementById('app')!
root.replaceChildren()
render(<App />, root)
