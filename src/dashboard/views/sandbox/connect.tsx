import { domain } from '../../browser/sandbox-client.ts'
import { connectTo } from '../../browser/snippets.ts'
import { Snippets } from '../../parts/copy.tsx'
import { Card } from '../../parts/layout.tsx'
import type { SandboxTabProps } from './tab-props.ts'

export function ConnectTab({ sandbox }: SandboxTabProps) {
  return (
    <Card title="Connect from a program">
      <p class="soft">
        These connect to exactly this sandbox, with any key of its team. Connecting to a paused sandbox
        resumes it.
      </p>
      <Snippets snippets={connectTo(sandbox.sandboxID, location.origin, domain())} />
    </Card>
  )
}
