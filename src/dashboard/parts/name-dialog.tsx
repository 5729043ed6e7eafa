import { useState } from 'preact/hooks'
import { FormDialog } from './dialog.tsx'
import { Field } from './fields.tsx'

type NameProps = {
  title: string
  action: string
  /** The name it has. */
  name?: string
  mono?: boolean
  /** A rejection is shown in the dialog, which stays open. */
  onName: (name: string) => Promise<unknown>
  onClose: () => void
}

/** Asks for the name of something new, or for another name of something that is there. */
export function NameDialog({ title, action, name: given = '', mono, onName, onClose }: NameProps) {
  const [name, setName] = useState(given)
  return (
    <FormDialog title={title} action={action} onSubmit={() => onName(name)} onClose={onClose}>
      <Field label="Name" value={name} onInput={setName} required autofocus mono={mono ?? false} />
    </FormDialog>
  )
}
