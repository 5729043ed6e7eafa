import { useEffect, useState } from 'preact/hooks'
import { logIn } from '../browser/log-in.ts'
import { messageFor } from '../browser/rest.ts'
import { docs } from '../browser/router.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/fields.tsx'
import { Brand } from './brand.tsx'

export function LoginView() {
  const [secret, setSecret] = useState('')
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    document.title = 'Log in · Warren'
  }, [])
  const submit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    setProblem('')
    try {
      await logIn(secret)
    } catch (error) {
      setProblem(messageFor(error))
      setBusy(false)
    }
  }
  return (
    <main class="login">
      <form onSubmit={submit}>
        <div class="stack">
          <h1 class="brand">
            <Brand /> Warren
          </h1>
          <p class="soft">
            Log in with an API key to see your team, or with the admin token to see all teams and the machine.
          </p>
        </div>
        <Field
          label="API key or admin token"
          kind="password"
          value={secret}
          onInput={setSecret}
          placeholder="e2b_…"
          autofocus
          mono
          required
          hint={
            <>
              On the machine, <code>bin/warren env</code> prints the first key; the admin token is in{' '}
              <code>secrets.json</code> of the data folder. It stays in this tab and is gone when you close
              it.
            </>
          }
        />
        {problem !== '' && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <Button kind="primary" submit disabled={isBusy}>
          Log in
        </Button>
        <p class="soft">
          New here? <a href={docs}>Read the documentation</a>.
        </p>
      </form>
    </main>
  )
}
