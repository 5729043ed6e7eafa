/** What a failed build tells its client: the step, the last lines of its output, and the remedy where one is known. */

const shownLines = 3
const longestShownLine = 200
/** Lines among which a known cause is looked for. */
const rememberedLines = 100
const longestRememberedLine = 2000

/** The last lines that a step has written. A step may write without end, so only these are remembered. */
export class OutputTail {
  #lines: string[] = []

  add(line: string): void {
    if (line.trim() === '') return
    this.#lines.push(line.slice(0, longestRememberedLine))
    if (this.#lines.length > rememberedLines) this.#lines.shift()
  }

  clear(): void {
    this.#lines = []
  }

  get lines(): readonly string[] {
    return this.#lines
  }
}

type KnownCause = { signs: RegExp; remedy: string }

/** Texts of pip, npm, Node, curl, git, apt, wget, Go, cargo and Java. The first cause that fits is told. */
const knownCauses: readonly KnownCause[] = [
  {
    signs:
      /CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL certificate problem|unable to get (?:local )?issuer certificate|UNABLE_TO_(?:GET_ISSUER_CERT|VERIFY_LEAF)|self[- _]signed[ _]cert(?:ificate)?[ _]in|(?:problem|failed|error): self-signed cert|certificate verification failed|certificate is not trusted|certificate signed by unknown authority|cannot verify .*certificate|PKIX path building failed|UnknownIssuer/i,
    remedy:
      'The certificate of a server is not trusted. If a proxy in your network inspects TLS, start Warren with WARREN_EXTRA_CA=host: ' +
      'builds and sandboxes then trust the authorities that this machine trusts. WARREN_EXTRA_CA also takes a PEM file with the authority.',
  },
  {
    signs: /No space left on device|ENOSPC|Disk quota exceeded/i,
    remedy: "The sandbox's disk is full. Write less, or start Warren with a larger WARREN_DEFAULT_DISK_MB.",
  },
  {
    signs:
      /exit status 137|signal: killed|[Cc]annot allocate memory|MemoryError|ENOMEM|heap out of memory|^Killed$|\d +Killed\b/m,
    remedy:
      'The memory was probably used up. Build with more, such as `warren template build --memory 4096`.',
  },
  {
    signs:
      /Could not resolve|Temporary failure (?:in name resolution|resolving)|Name or service not known|EAI_AGAIN|getaddrinfo ENOTFOUND|Network is unreachable|ENETUNREACH|No route to host|Failed to establish a new connection|(?:Connection|connect) timed out|ETIMEDOUT/i,
    remedy:
      'The sandbox did not reach a server. Check that this machine has internet access, that WARREN_DNS_SERVERS are name servers ' +
      'that it may ask, and that no firewall drops forwarded traffic (`warren doctor`).',
  },
]

/** `where` names the step, such as `step 2 of 5`. */
export function explainFailure(message: string, where: string, lines: readonly string[]): string {
  const known = causeOf([...lines, message])
  const last = lines.slice(-shownLines)
  const hasKnownLine = known?.line !== undefined && !last.includes(known.line) && lines.includes(known.line)
  const shown = (hasKnownLine ? [known.line, ...last] : last).map(
    (line) => `'${line.trim().slice(0, longestShownLine)}'`,
  )
  const output = shown.length === 0 ? '' : `; its last output: ${shown.join(' | ')}`
  const remedy = known ? ` ${known.remedy}` : ''
  return `${message.replace(/\.$/, '')}. This was ${where}${output}.${remedy}`
}

function causeOf(lines: readonly string[]): { line: string; remedy: string } | undefined {
  for (const { signs, remedy } of knownCauses) {
    const line = lines.findLast((one) => signs.test(one))
    if (line !== undefined) return { line, remedy }
  }
  return undefined
}
