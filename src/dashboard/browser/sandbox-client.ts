/** The official client, loaded when a view first works inside a sandbox. */
import type { Sandbox } from 'e2b'
import { useEffect, useState } from 'preact/hooks'
import type { SandboxDetail } from '../../contract/rest/sandbox.ts'
import { tryAgain } from './try-again.ts'

export type { Sandbox } from 'e2b'

/** Where sandboxes are found by name, if the operator configured it; the page says so. */
export const domain = (): string =>
  document.querySelector<HTMLMetaElement>('meta[name="warren-domain"]')?.content ?? ''

/** Without a domain, and by an address, the page's own host serves sandboxes too: headers say which one is meant. */
function sharesHost(hostname: string, configured: string): boolean {
  const isAddress = /^(?:\d+\.){3}\d+$/.test(hostname) || hostname.startsWith('[')
  return configured === '' || hostname === 'localhost' || isAddress
}

/** Opens a client without resuming the sandbox or extending its timeout: a look must not keep a sandbox alive. */
async function openClient(detail: SandboxDetail): Promise<Sandbox> {
  const { Sandbox } = await tryAgain(() => import('e2b'))
  const configured = domain()
  return new Sandbox({
    sandboxId: detail.sandboxID,
    envdVersion: detail.envdVersion,
    ...(detail.envdAccessToken !== undefined && { envdAccessToken: detail.envdAccessToken }),
    ...(sharesHost(location.hostname, configured)
      ? { sandboxUrl: location.origin }
      : { domain: configured, sandboxDomain: configured }),
  })
}

/** For commands that only look: the log of the sandbox does not tell of them. */
export const unlogged = { envs: { WARREN_LOG: 'off' }, timeoutMs: 10_000 }

/** Undefined until it is there; a paused sandbox has none. */
export function useClient(detail: SandboxDetail): Sandbox | undefined {
  const [client, setClient] = useState<Sandbox>()
  const { sandboxID, envdAccessToken, state } = detail
  useEffect(() => {
    let isWanted = state === 'running'
    if (isWanted) openClient(detail).then((opened) => isWanted && setClient(opened))
    return () => {
      isWanted = false
      setClient(undefined)
    }
  }, [sandboxID, envdAccessToken, state])
  return client
}

/** Where a browser reaches a port of the sandbox; undefined where its address is not known. */
export function portLink(detail: SandboxDetail, port: number): string | undefined {
  if (!detail.domain) return undefined
  return `${location.protocol}//${port}-${detail.sandboxID}.${detail.domain}/`
}
