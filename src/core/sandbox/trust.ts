/** Makes programs inside a sandbox trust the authority with which the gate stands in for hosts. */
import { AppError } from '../../lib/app-error.ts'
import type { AgentPort } from '../agent.ts'
import type { Endpoint } from '../driver.ts'

export type TrustedAuthority = {
  /** In PEM form. */
  certificate: string
  /** Under which OpenSSL finds it in a folder of authorities. */
  fileName: string
}

/**
 * Into the folder that OpenSSL reads, into each of the files that distributions keep all authorities in, and where
 * Debian's `update-ca-certificates` finds it again. A second time changes nothing.
 */
const script = `set -e
own=/usr/local/share/ca-certificates
mkdir -p "$own" /etc/ssl/certs
printf '%s' "$CERTIFICATE" > "$own/warren-egress.crt"
printf '%s' "$CERTIFICATE" > "/etc/ssl/certs/$FILE_NAME"
[ -e /etc/ssl/certs/ca-certificates.crt ] || : > /etc/ssl/certs/ca-certificates.crt
for all in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
  if [ -f "$all" ] && ! grep -qF "$LINE" "$all"; then printf '%s' "$CERTIFICATE" >> "$all"; fi
done`

export async function trustAuthority(
  agent: AgentPort,
  endpoint: Endpoint,
  accessToken: string,
  { certificate, fileName }: TrustedAuthority,
  signal: AbortSignal,
): Promise<void> {
  const envs = {
    CERTIFICATE: certificate,
    FILE_NAME: fileName,
    LINE: certificate.split('\n')[3] ?? certificate,
  }
  let said = ''
  const onOutput = ({ data }: { data: Buffer }) => {
    said += data.toString().slice(0, 500)
  }
  const command = { command: script, shell: 'sh', user: 'root', cwd: '/', envs } as const
  const { exitCode } = await agent.run(endpoint, accessToken, command, { onOutput, signal })
  if (exitCode === 0) return
  throw new AppError(
    'unavailable',
    `The authority for network.rules could not be installed in the sandbox: ${said.trim() || `exit code ${exitCode}`}`,
  )
}
