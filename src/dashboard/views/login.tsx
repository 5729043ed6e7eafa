import { useEffect, useState } from 'preact/hooks'
import { logIn, problemOfLink, signInLabel } from '../browser/log-in.ts'
import { messageFor } from '../browser/rest.ts'
import { address, base, docs } from '../browser/router.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/fields.tsx'
import { Brand } from './brand.tsx'

/** Back to where the reader wanted to go. */
function signInPath(): string {
  const { path, query } = address.get()
  const search = query.size > 0 ? `?${query}` : ''
  return `/sign-in?${new URLSearchParams({ return: `${base}${path}${search}` })}`
}

export function LoginView() {
  const label = signInLabel()
  const [secret, setSecret] = useState('')
  const [problem, setProblem] = useState(problemOfLink)
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
          {label === undefined && (
            <p class="soft">
              Log in with an API key to see your team, or with the admin token to see all teams and the
              machine.
            </p>
          )}
        </div>
        {label !== undefined && (
          <>
            <a class="button primary" href={signInPath()}>
              <span>Sign in with {label}</span>
            </a>
            <p class="or">or with a key</p>
          </>
        )}
        <Field
          label="API key or admin token"
          kind="password"
          value={secret}
          onInput={setSecret}
          placeholder="e2b_…"
          autofocus={label === undefined}
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
        <Button kind={label === undefined ? 'primary' : 'plain'} submit disabled={isBusy}>
          Log in
        </Button>
        <p class="soft">
          New here? <a href={docs}>Read the documentation</a>.
        </p>
      </form>
    </main>
  )
}
