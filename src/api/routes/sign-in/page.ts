/** The sign-in page. It loads nothing, runs no script and cannot be framed. */
import { createHash } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import type { FormAccount } from './account.ts'

const style = `
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 34rem; margin: 12vh auto; padding: 0 1.5rem }
input, button { font: inherit; padding: .5rem .75rem; box-sizing: border-box }
input { width: 100%; margin: .25rem 0 1rem }
code { font-size: .9em }
.problem { border-left: 3px solid #c33; padding-left: .75rem }`

const styleHash = createHash('sha256').update(style).digest('base64')

/**
 * After the form is sent, the browser is redirected to the command line's address, to which browsers apply
 * form-action too.
 */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  "form-action 'self' http://localhost:* http://127.0.0.1:*",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ')

export function sendPage(reply: FastifyReply, status: number, body: string): FastifyReply {
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .headers({
      'content-security-policy': policy,
      // Without a referrer, the browser would not say either that the form is of this page.
      'referrer-policy': 'same-origin',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    .send(
      `<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in to Warren</title>` +
        `<meta name="viewport" content="width=device-width"><style>${style}</style><body>${body}`,
    )
}

type SignInForm = { address: URL; seal: string; problem?: string; account: FormAccount }

/** Shows where the token will go before it asks for a key, and ignores a key that was typed before. */
export function formPage({ address, seal, problem, account }: SignInForm): string {
  const hidden = `<input type="hidden" name="next" value="${escapeHtml(address.href)}">
<input type="hidden" name="seal" value="${escapeHtml(seal)}">`
  return `<h1>Sign in the command line</h1>
${problem === undefined ? '' : `<p class="problem" role="alert">${escapeHtml(problem)}</p>`}
<p>Go on only if you ran <code>e2b auth login</code> on this computer a moment ago. A token that can do what you or the key
can do will be sent to the program that listens at <strong><code>${escapeHtml(address.href)}</code></strong>.</p>
${accountForms(account, hidden)}
<form method="post">
${hidden}
<label>API key or access token of your team
<input name="key" type="password" required autocomplete="off" placeholder="e2b_…"></label>
<button>Sign in</button>
</form>
<p>The operator of this Warren makes keys with <code>warren key create TEAM</code>; <code>warren env</code> prints
the first one.</p>`
}

/** A button for each team of the person who is signed in: the token is then theirs. */
function accountForms(account: FormAccount, hidden: string): string {
  if (account === undefined) return ''
  if (account === 'nobody')
    return '<p>To use your own account, sign in at the <a href="/dashboard">dashboard</a> in this browser, and load this page again.</p>'
  const forms = account.teams.map(
    ({ teamID, name }) => `<form method="post">
${hidden}
<input type="hidden" name="team" value="${escapeHtml(teamID)}">
<p><button>Continue as ${escapeHtml(account.name)} in team ${escapeHtml(name)}</button></p>
</form>`,
  )
  return `${forms.join('\n')}\n<p>Or with a key:</p>`
}

export const messagePage = (title: string, text: string): string =>
  `<h1>${escapeHtml(title)}</h1><p>${escapeHtml(text)}</p>`

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => entities[char]!)
