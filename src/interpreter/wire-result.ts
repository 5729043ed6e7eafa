/** Converts a result for the clients, by the MIME types of the kernel's bundle. */
const fields: Record<string, string> = {
  'text/plain': 'text',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/json': 'json',
  'application/javascript': 'javascript',
  'e2b/data': 'data',
  'e2b/chart': 'chart',
}

export function wireResult(bundle: Record<string, unknown>, isMain: boolean): object {
  const result: Record<string, unknown> = {}
  const extra: Record<string, unknown> = {}
  for (const [type, value] of Object.entries(bundle)) {
    if (value === null || value === undefined) continue
    const field = Object.hasOwn(fields, type) ? fields[type]! : undefined
    if (field === undefined) extra[type] = value
    else result[field] = field === 'text' ? withoutQuotes(String(value)) : value
  }
  return {
    type: 'result',
    ...result,
    ...(Object.keys(extra).length > 0 && { extra }),
    is_main_result: isMain,
  }
}

/** Shows the string value 'abc' of a cell as abc. */
function withoutQuotes(text: string): string {
  const first = text[0]
  const isQuoted = text.length > 1 && (first === "'" || first === '"') && text.endsWith(first)
  return isQuoted ? text.slice(1, -1) : text
}
