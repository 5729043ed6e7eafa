import { useState } from 'preact/hooks'
import { bytes, duration, percent } from '../../browser/format.ts'
import { useLive } from '../../browser/live.ts'
import { listProcesses, parseProcesses, type SandboxProcess } from '../../browser/proc-text.ts'
import { type Sandbox, unlogged, useClient } from '../../browser/sandbox-client.ts'
import { Button } from '../../parts/button.tsx'
import { confirmFirst } from '../../parts/dialog.tsx'
import { Field } from '../../parts/fields.tsx'
import { Card, Loaded, Table } from '../../parts/layout.tsx'
import { showDone } from '../../parts/toasts.tsx'
import type { SandboxTabProps } from './tab-props.ts'

const everyMs = 4000

async function readProcesses(client: Sandbox): Promise<SandboxProcess[]> {
  const { stdout } = await client.commands.run(listProcesses, { ...unlogged, user: 'root' })
  return parseProcesses(stdout)
}

export function ProcessesTab({ detail }: SandboxTabProps) {
  const client = useClient(detail)
  const live = useLive(client ? `processes ${detail.sandboxID}` : '', () => readProcesses(client!), everyMs)
  const end = ({ pid, command }: SandboxProcess) =>
    confirmFirst(`End process ${pid}?`, command, 'End it', async () => {
      await client!.commands.run(`kill ${pid}`, { user: 'root', timeoutMs: 10_000 })
      showDone(`Process ${pid} was told to end.`)
      await live.reload()
    })
  return (
    <>
      <RunCommand client={client} onRun={live.reload} />
      <Card flush>
        <Loaded live={live}>
          {(processes) => (
            <Table
              label="Processes"
              rows={processes}
              keyOf={({ pid }) => String(pid)}
              columns={[
                { name: 'PID', cell: ({ pid }) => <span class="mono">{pid}</span>, wide: true },
                {
                  name: 'Command',
                  cell: ({ command }) => (
                    <code class="command" title={command}>
                      {command}
                    </code>
                  ),
                },
                { name: 'User', cell: ({ user }) => user, wide: true },
                { name: 'CPU', cell: ({ cpuPct }) => percent(cpuPct), end: true },
                { name: 'Memory', cell: ({ memoryBytes }) => bytes(memoryBytes), end: true },
                { name: 'Age', cell: ({ ageMs }) => duration(ageMs), end: true, wide: true },
                {
                  name: '',
                  end: true,
                  cell: (row) => (
                    <Button
                      kind="quiet"
                      small
                      icon="x"
                      label={`End process ${row.pid}`}
                      onPress={() => end(row)}
                    />
                  ),
                },
              ]}
            />
          )}
        </Loaded>
      </Card>
    </>
  )
}

const maxOutput = 20_000

function RunCommand({ client, onRun }: { client: Sandbox | undefined; onRun: () => Promise<void> }) {
  const [command, setCommand] = useState('')
  const [output, setOutput] = useState<string>()
  const run = async () => {
    setOutput('')
    const result = await client!.commands.run(command, { timeoutMs: 60_000 }).catch((error) => {
      // A command that ends with another code than 0 has printed something too.
      if (typeof error?.exitCode === 'number')
        return error as { stdout: string; stderr: string; exitCode: number }
      throw error
    })
    const text = `${result.stdout}${result.stderr}`.slice(-maxOutput)
    setOutput(`${text}${text.endsWith('\n') || text === '' ? '' : '\n'}[exit ${result.exitCode}]`)
    await onRun()
  }
  return (
    <Card title="Run a command">
      <form
        class="toolbar"
        onSubmit={(event) => {
          event.preventDefault()
        }}
      >
        <div class="rest">
          <Field label="Command" value={command} onInput={setCommand} mono placeholder="python3 --version" />
        </div>
        <Button kind="primary" icon="play" submit disabled={!client || command.trim() === ''} onPress={run}>
          Run
        </Button>
      </form>
      {output !== undefined && <pre class="output">{output}</pre>}
    </Card>
  )
}
