/** Garbage collections at a moment of our choice. Modules are loaded when used: the start of an agent needs none of them. */

/** More than half of the heap limit of an agent in memory outside of it makes V8 collect everything and shrink. */
const pressureBytes = 192 * 1024 * 1024

/** The buffers are never touched, so they cost nothing but the collection they bring about. */
export function collectGarbage(times: number): void {
  try {
    for (let time = 0; time < times; time++) new ArrayBuffer(pressureBytes)
  } catch {}
}

/** After how many collections V8 drops compiled code that was not used. */
export function setCodeAge(collections: number): void {
  process.getBuiltinModule('node:v8').setFlagsFromString(`--bytecode-old-age=${collections}`)
}
