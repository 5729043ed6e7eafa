/**
 * Users and groups from the sandbox's own /etc/passwd and /etc/group. Parsed here, because an image may have
 * no getent, and our libc is not the image's.
 */
import { closeSync, constants, openSync, readSync, type Stats, statSync } from 'node:fs'
import { systemErrorCode } from './errors.ts'

export type Account = {
  name: string
  uid: number
  gid: number
  home: string
  /** Supplementary groups, without the primary one. */
  groups: number[]
}

const bareID = /^\d{1,9}$/
/** The next ID means none in system calls. */
const largestID = 2 ** 32 - 2
/** Far above the size in any image: the file is read at once. */
const largestFile = 4 * 1024 * 1024
const none: string[][] = []

/** The rows of a file, and the properties that show that the file has not changed since. */
type Table = { ino: number; size: number; mtimeMs: number; rows: string[][] }
type Found = { text: string; passwd: string[][]; group: string[][]; account: Account | undefined }

export class Accounts {
  #folder: string
  #tables = new Map<string, Table>()
  #last: Found | undefined

  constructor(folder = '/etc') {
    this.#folder = folder
  }

  /**
   * Finds a user in the form of an image's USER: a name or a number, and optionally a group after a colon,
   * which then is the only one. A number without an account is taken as a bare user ID, in the group of root.
   */
  find(text: string): Account | undefined {
    const [passwd, group] = [this.#rows('passwd'), this.#rows('group')]
    const last = this.#last
    // Nearly every request is for the same user as the previous one.
    if (last?.text === text && last.passwd === passwd && last.group === group) return last.account
    const account = this.#find(text)
    this.#last = { text, passwd, group, account }
    return account
  }

  #find(text: string): Account | undefined {
    const [name, group] = text.split(':', 2) as [string, string?]
    const account = this.#user(name)
    if (!account || group === undefined) return account
    const gid = this.#groupID(group)
    return gid === undefined ? undefined : { ...account, gid, groups: [] }
  }

  #user(name: string): Account | undefined {
    const row = this.#rows('passwd').find((fields) => fields[0] === name)
    if (row) return this.#account(row)
    if (name === 'root') return { name, uid: 0, gid: 0, home: '/root', groups: [] }
    if (!bareID.test(name)) return undefined
    const uid = Number(name)
    const known = this.#rows('passwd').find((fields) => Number(fields[2]) === uid)
    return known ? this.#account(known) : { name: String(uid), uid, gid: 0, home: '/', groups: [] }
  }

  #groupID(group: string): number | undefined {
    const row = this.#rows('group').find((fields) => fields[0] === group)
    if (row) return Number(row[2])
    return bareID.test(group) ? Number(group) : undefined
  }

  userName(uid: number): string {
    const row = this.#rows('passwd').find((fields) => Number(fields[2]) === uid)
    return row?.[0] ?? (uid === 0 ? 'root' : String(uid))
  }

  /** The login shell of an account; undefined if /etc/passwd names none. */
  shell(name: string): string | undefined {
    return this.#rows('passwd').find((fields) => fields[0] === name)?.[6] || undefined
  }

  groupName(gid: number): string {
    const row = this.#rows('group').find((fields) => Number(fields[2]) === gid)
    return row?.[0] ?? (gid === 0 ? 'root' : String(gid))
  }

  #account(row: string[]): Account {
    const name = row[0]!
    const gid = Number(row[3])
    const groups = this.#rows('group')
      .filter((fields) => fields[3]?.split(',').includes(name))
      .map((fields) => Number(fields[2]))
      .filter((group) => group !== gid)
    return { name, uid: Number(row[2]), gid, home: row[5] || '/', groups: [...new Set(groups)] }
  }

  #rows(file: 'passwd' | 'group'): string[][] {
    const path = `${this.#folder}/${file}`
    const stats = statTable(path)
    if (!stats) return none
    const { ino, size, mtimeMs } = stats
    const known = this.#tables.get(file)
    if (known?.ino === ino && known.size === size && known.mtimeMs === mtimeMs) return known.rows
    const [fieldCount, ids] = file === 'passwd' ? [6, [2, 3]] : [4, [2]]
    const rows = readBytes(path, size)
      .toString()
      .split('\n')
      .map((line) => line.split(':'))
      .filter(
        (fields) => fields.length >= fieldCount && fields[0] !== '' && ids.every((at) => isID(fields[at]!)),
      )
    this.#tables.set(file, { ino, size, mtimeMs, rows })
    return rows
  }
}

const isID = (text: string): boolean => /^\d+$/.test(text) && Number(text) <= largestID

/**
 * Root inside the sandbox may replace the file by anything: only a regular file of reasonable size counts.
 */
function statTable(path: string): Stats | undefined {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    return stats?.isFile() && stats.size <= largestFile ? stats : undefined
  } catch (error) {
    if (systemErrorCode(error) === 'ELOOP') return undefined
    throw error
  }
}

/**
 * Reads at most `size` bytes, without blocking: the file may have become a pipe or an endless device
 * meanwhile.
 */
function readBytes(path: string, size: number): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const bytes = Buffer.alloc(size)
    let length = 0
    for (let read = 1; read > 0 && length < size; length += read) {
      read = readSync(file, bytes, length, size - length, null)
    }
    return bytes.subarray(0, length)
  } finally {
    closeSync(file)
  }
}
