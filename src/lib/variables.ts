/**
 * Variables in a text, as Dockerfiles write them: `$NAME`, `${NAME}`, `${NAME:-other}`, `${NAME:+other}`; without the
 * colon, a variable that is set to nothing counts as set. A backslash keeps a dollar as it is.
 */
const variable = /\\\$|\$(?:(\w+)|\{(\w+)(?:(:?[-+])((?:[^{}]|\$\{\w+\})*))?\})/g

/** What is not set is nothing. */
export function expandVariables(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(variable, (whole, plain?: string, braced?: string, how?: string, other = '') => {
    if (whole === '\\$') return '$'
    const name = plain ?? braced ?? ''
    const value = Object.hasOwn(values, name) ? values[name]! : undefined
    if (how === undefined) return value ?? ''
    const isThere = how.startsWith(':') ? Boolean(value) : value !== undefined
    if (how.endsWith('+')) return isThere ? expandVariables(other, values) : ''
    return isThere ? value! : expandVariables(other, values)
  })
}

/** Every name that the text asks for, also those in what stands in for another. */
export function variablesIn(text: string): string[] {
  return [...text.matchAll(variable)].flatMap(([, plain, braced, , other]) => {
    const name = plain ?? braced
    return name === undefined ? [] : [name, ...variablesIn(other ?? '')]
  })
}
