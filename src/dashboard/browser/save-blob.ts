const keepMs = 60_000

/** Hands a file to the browser to keep. It is never shown as a page. */
export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(new Blob([blob], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), keepMs)
}
