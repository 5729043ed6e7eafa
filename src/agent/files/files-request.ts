import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Account } from '../accounts.ts'
import type { Metadata } from '../filesystem/metadata.ts'
import type { Identity } from '../identity.ts'
import type { AgentLog } from '../log/agent-log.ts'

export type FilesContext = { identity: Identity; clock: Clock; metadata: Metadata; log: AgentLog }

/** The account that a /files request acts as. */
export function accountFor(identity: Identity, asked: string): Account {
  const account = identity.account(asked)
  if (account) return account
  const name = asked || identity.defaultUser
  throw new AppError('unauthenticated', `error looking up user '${name}': user: unknown user ${name}`)
}
