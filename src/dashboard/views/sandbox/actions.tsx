import { useState } from 'preact/hooks'
import { count } from '../../browser/format.ts'
import { now } from '../../browser/live.ts'
import { navigate, pathTo } from '../../browser/router.ts'
import {
  forkSandbox,
  killSandbox,
  pauseSandbox,
  resumeSandbox,
  setTimeoutOf,
  snapshotSandbox,
} from '../../browser/sandboxes.ts'
import { Button } from '../../parts/button.tsx'
import { confirmFirst, FormDialog } from '../../parts/dialog.tsx'
import { Field } from '../../parts/fields.tsx'
import { showDone } from '../../parts/toasts.tsx'
import type { SandboxTabProps } from './tab-props.ts'

const resumeSeconds = 900

export function SandboxActions({ detail, sandbox, reload }: SandboxTabProps) {
  const { team } = sandbox
  const [open, setOpen] = useState<'extend' | 'snapshot' | 'fork'>()
  const close = () => setOpen(undefined)
  const isRunning = detail.state === 'running'
  const pause = async () => {
    await pauseSandbox(sandbox)
    showDone('Paused: memory and files are kept.')
    await reload()
  }
  const resume = async () => {
    await resumeSandbox(sandbox, resumeSeconds)
    showDone('Resumed, for fifteen minutes.')
    await reload()
  }
  const kill = () =>
    confirmFirst(
      'Kill this sandbox?',
      'Its processes end and its files are deleted. This cannot be undone.',
      'Kill',
      async () => {
        await killSandbox(sandbox)
        showDone(`Killed ${sandbox.sandboxID}.`)
        navigate(pathTo(['sandboxes']))
      },
    )
  return (
    <>
      {isRunning ? (
        <>
          <Button needs="member" team={team} icon="clock" onPress={() => setOpen('extend')}>
            Extend
          </Button>
          <Button needs="member" team={team} icon="pause" onPress={pause}>
            Pause
          </Button>
          <Button needs="member" team={team} icon="camera" onPress={() => setOpen('snapshot')}>
            Snapshot
          </Button>
          <Button needs="member" team={team} icon="fork" onPress={() => setOpen('fork')}>
            Fork
          </Button>
        </>
      ) : (
        <Button needs="member" team={team} kind="primary" icon="play" onPress={resume}>
          Resume
        </Button>
      )}
      <Button needs="member" team={team} kind="danger" icon="trash" onPress={kill}>
        Kill
      </Button>
      {open === 'extend' && (
        <ExtendDialog detail={detail} sandbox={sandbox} reload={reload} onClose={close} />
      )}
      {open === 'snapshot' && (
        <SnapshotDialog detail={detail} sandbox={sandbox} reload={reload} onClose={close} />
      )}
      {open === 'fork' && <ForkDialog detail={detail} sandbox={sandbox} reload={reload} onClose={close} />}
    </>
  )
}

type DialogProps = SandboxTabProps & { onClose: () => void }

function ExtendDialog({ detail, sandbox, reload, onClose }: DialogProps) {
  const leftMinutes = Math.max(0, (Date.parse(detail.endAt) - now()) / 60_000)
  const [minutes, setMinutes] = useState(String(Math.ceil(leftMinutes) + 15))
  const submit = async () => {
    await setTimeoutOf(sandbox, Math.round(Number(minutes) * 60))
    showDone(`It has ${count(Number(minutes), 'minute')} from now on.`)
    await reload()
  }
  return (
    <FormDialog title="Change when it ends" action="Set" onSubmit={submit} onClose={onClose}>
      <Field
        label="Minutes from now"
        kind="number"
        value={minutes}
        onInput={setMinutes}
        required
        autofocus
        hint="The longest life of a sandbox is a limit of its team."
      />
    </FormDialog>
  )
}

function SnapshotDialog({ sandbox, onClose }: DialogProps) {
  const [name, setName] = useState('')
  const submit = async () => {
    const { snapshotID, names } = await snapshotSandbox(sandbox, name.trim())
    showDone(`Snapshot ${names[0] ?? snapshotID} is ready.`)
  }
  return (
    <FormDialog title="Make a snapshot" action="Create" onSubmit={submit} onClose={onClose}>
      <p>
        A snapshot has memory and files of this moment. New sandboxes can start from it, and this one keeps
        running.
      </p>
      <Field
        label="Name (optional)"
        value={name}
        onInput={setName}
        mono
        placeholder="my-snapshot"
        autofocus
      />
    </FormDialog>
  )
}

function ForkDialog({ sandbox, onClose }: DialogProps) {
  const [copies, setCopies] = useState('1')
  const submit = async () => {
    const made = await forkSandbox(sandbox, Number(copies))
    showDone(`Made ${count(made.length, 'copy', 'copies')}.`)
    navigate(
      made.length === 1 ? pathTo(['sandboxes', made[0]!], { team: sandbox.team }) : pathTo(['sandboxes']),
    )
  }
  return (
    <FormDialog title="Fork this sandbox" action="Fork" onSubmit={submit} onClose={onClose}>
      <p>Each copy starts with the memory and files of this moment, and runs on by itself.</p>
      <Field label="Copies" kind="number" value={copies} onInput={setCopies} required autofocus />
    </FormDialog>
  )
}
