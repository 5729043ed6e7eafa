/**
 * Variables as shell commands; values may contain anything. Names that are invalid in a shell are skipped.
 */

/** Null removes a variable. */
export type VariableChanges = Record<string, string | null>

const nameForm = /^[A-Za-z_]\w*$/

export function bashVariables(changes: VariableChanges): string {
  return Object.entries(changes)
    .filter(([name]) => nameForm.test(name))
    .map(([name, value]) => (value === null ? `unset ${name}\n` : `export ${name}=${quoted(value)}\n`))
    .join('')
}

const quoted = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`
