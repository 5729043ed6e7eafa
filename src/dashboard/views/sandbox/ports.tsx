import type { SandboxDetail } from '../../../contract/rest/sandbox.ts'
import { useLive } from '../../browser/live.ts'
import { parseListening } from '../../browser/proc-text.ts'
import { portLink, type Sandbox, unlogged, useClient } from '../../browser/sandbox-client.ts'
import { Icon } from '../../parts/icon.tsx'
import { Card, Loaded } from '../../parts/layout.tsx'

const everyMs = 10_000
/** The agent's own. */
const hidden = new Set([49983])

async function listeningPorts(client: Sandbox): Promise<number[]> {
  const { stdout } = await client.commands.run('cat /proc/net/tcp /proc/net/tcp6 2>/dev/null', unlogged)
  return parseListening(stdout).filter((port) => !hidden.has(port))
}

/** The ports that listen in the sandbox, as links. */
export function Ports({ detail }: { detail: SandboxDetail }) {
  const client = useClient(detail)
  const live = useLive(client ? `ports ${detail.sandboxID}` : '', () => listeningPorts(client!), everyMs)
  return (
    <Card title="Open ports">
      <Loaded live={live}>
        {(ports) =>
          ports.length === 0 ? (
            <p class="faint">
              Nothing listens. Start a server inside, for example <code>python3 -m http.server 8000</code>.
            </p>
          ) : (
            <div class="tags">
              {ports.map((port) => (
                <Port key={port} port={port} link={portLink(detail, port)} />
              ))}
            </div>
          )
        }
      </Loaded>
    </Card>
  )
}

function Port({ port, link }: { port: number; link: string | undefined }) {
  if (!link) return <span class="tag">{port}</span>
  return (
    <a class="button small" href={link} target="_blank" rel="noreferrer noopener">
      <Icon name="link" />
      <span>{port}</span>
    </a>
  )
}
