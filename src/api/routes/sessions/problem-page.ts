import type { FastifyReply } from 'fastify'
import { messagePage, sendPage } from '../sign-in/page.ts'

export const noProvider =
  'No sign-in provider is set here (WARREN_OIDC_ISSUER): log in with an API key or the admin token.'

/** Says why nobody is signed in now, and where to go on. */
export function sendProblem(
  reply: FastifyReply,
  status: number,
  text: string,
  { again = true }: { again?: boolean } = {},
): FastifyReply {
  const links = again ? '<a href="/sign-in">Sign in again</a> · ' : ''
  const dashboard = '<a href="/dashboard">Log in with a key</a>'
  return sendPage(reply, status, `${messagePage('Not signed in', text)}<p>${links}${dashboard}</p>`)
}
