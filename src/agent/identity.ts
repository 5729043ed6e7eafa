/** What the control plane told the agent through /init: who may call it, and whom it acts as. */
import { AppError } from '../lib/app-error.ts'
import { type Account, Accounts } from './accounts.ts'

export type InitRequest = {
  envVars?: Record<string, string>
  accessToken?: string
  /** False: only who changes the identity must show the token. */
  secure?: boolean
  defaultUser?: string
  defaultWorkdir?: string
  /** The certificates of authorities that programs shall trust, in PEM form. */
  caBundle?: string
  /** False: the sandbox is made ready before anybody owns it. */
  hasOwner?: boolean
}

export class Identity {
  readonly accounts: Accounts
  envVars: Record<string, string> = {}
  /** Where programs find whom to trust; `envVars` win over them. */
  trustVars: Record<string, string> = {}
  secure = true
  /** False as long as the sandbox is made ready for whoever will own it. */
  hasOwner = false
  defaultUser = 'root'
  defaultWorkdir = ''
  // Kept in this process's memory only: never in an environment, an argument or a file.
  #accessToken = ''

  constructor(accounts = new Accounts()) {
    this.accounts = accounts
  }

  /** Another that acts as the same users, for an agent that only this process reaches. */
  withoutToken(): Identity {
    const { defaultUser, defaultWorkdir } = this
    return Object.assign(new Identity(this.accounts), { defaultUser, defaultWorkdir })
  }

  /** Whether callers must show the token. */
  get wantsToken(): boolean {
    return this.secure && this.hasToken
  }

  get hasToken(): boolean {
    return this.#accessToken !== ''
  }

  tokenMatches(given: string | undefined): boolean {
    return given !== undefined && this.hasToken && sameText(given, this.#accessToken)
  }

  /** What a signed URL must carry; undefined while no token is set. */
  signatureOf(path: string, operation: 'read' | 'write', username: string, expiration: string | undefined) {
    // Loaded here because few sandboxes ever need it, and it is large.
    const { createHash } = process.getBuiltinModule('node:crypto')
    const parts = [path, operation, username, this.#accessToken]
    if (expiration !== undefined) parts.push(expiration)
    return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`
  }

  apply(request: InitRequest): void {
    this.hasOwner = request.hasOwner ?? true
    if (request.envVars) this.envVars = { ...request.envVars }
    if (request.accessToken !== undefined) this.#accessToken = request.accessToken
    if (request.secure !== undefined) this.secure = request.secure
    if (request.defaultUser) this.defaultUser = request.defaultUser
    if (request.defaultWorkdir !== undefined) this.defaultWorkdir = request.defaultWorkdir
  }

  /** The account to act as: the named one, else the default. Undefined when there is no such user. */
  account(username: string | undefined): Account | undefined {
    return this.accounts.find(username || this.defaultUser)
  }

  /** The account an RPC asks for through `Authorization: Basic base64("<user>:")`. */
  accountOf(authorization: string | undefined): Account {
    const username = usernameIn(authorization)
    const account = this.account(username)
    if (!account) {
      throw new AppError('unauthenticated', `invalid username: '${username || this.defaultUser}'`)
    }
    return account
  }
}

function usernameIn(authorization: string | undefined): string {
  const encoded = /^basic\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1]
  if (encoded === undefined) return ''
  const text = Buffer.from(encoded, 'base64').toString()
  // Up to the last colon: a user may have a group behind one of its own, and a password is never sent.
  return text.replace(/:[^:]*$/, '')
}

/** Takes as long for a first wrong byte as for a last one: its duration tells nothing but the length. */
export function sameText(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)]
  let difference = a.length ^ b.length
  for (let i = 0; i < b.length; i++) difference |= (a[i] ?? 0) ^ b[i]!
  return difference === 0
}
