import { useEffect, useRef, useState } from 'preact/hooks'
import { messageFor } from '../../browser/rest.ts'
import { useClient } from '../../browser/sandbox-client.ts'
import type { Shell } from '../../browser/shell-session.ts'
import { tryAgain } from '../../browser/try-again.ts'
import { Button } from '../../parts/button.tsx'
import { Select } from '../../parts/fields.tsx'
import type { SandboxTabProps } from './tab-props.ts'

/** A shell in the sandbox. It ends when the tab is left. */
export function TerminalTab({ detail }: SandboxTabProps) {
  const client = useClient(detail)
  const screen = useRef<HTMLDivElement>(null)
  const [state, setState] = useState('connecting…')
  const [user, setUser] = useState('user')
  const [round, setRound] = useState(0)
  useEffect(() => {
    if (!client || !screen.current) return
    const element = screen.current
    let shell: Shell | undefined
    let isWanted = true
    const failed = (error: unknown) => isWanted && setState(messageFor(error))
    setState('connecting…')
    tryAgain(() => import('../../browser/shell-session.ts'))
      .then(async ({ openShell }) => {
        if (!isWanted) return
        shell = await openShell({ client, element, user, onEnd: (why) => isWanted && setState(why) })
        if (isWanted) setState('connected')
        else shell.close()
      })
      .catch(failed)
    return () => {
      isWanted = false
      shell?.close()
    }
  }, [client, user, round])
  return (
    <div class="console">
      <div class="screen" ref={screen} />
      <footer>
        <span role="status">{state}</span>
        <div class="actions">
          <Select
            label="User"
            hideLabel
            value={user}
            onChange={setUser}
            options={[
              ['user', 'as user'],
              ['root', 'as root'],
            ]}
          />
          {state !== 'connected' && (
            <Button kind="quiet" small icon="refresh" onPress={() => setRound(round + 1)}>
              Reconnect
            </Button>
          )}
        </div>
      </footer>
    </div>
  )
}
