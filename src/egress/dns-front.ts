/**
 * DNS for sandboxes whose connections go through the gate: it answers only what their policy lets them ask, so
 * that no question carries anything out. Strangers get no answer at all.
 */
import type { RemoteInfo, Socket as UdpSocket } from 'node:dgram'
import type { Socket } from 'node:net'
import type { EgressPolicy } from '../core/egress.ts'
import type { Clock } from '../lib/clock.ts'
import { type Client, type Clients, plainAddress } from './clients.ts'
import { type IsClosed, isAddressAllowed, isOpenByDefault } from './decide.ts'
import {
  type Question,
  readdress,
  readQuestion,
  recordTypes,
  resultCodes,
  writeAnswer,
} from './dns-message.ts'
import { askServers, framed } from './dns-upstream.ts'
import { matchesAny } from './names.ts'

export type DnsFrontOptions = {
  clients: Clients
  dnsServers: readonly string[]
  isClosed: IsClosed
  clock: Clock
  limits: DnsLimits
}

export type DnsLimits = {
  /** Of one sandbox, in the long run and at once. */
  questionsPerSecond: number
  questionBurst: number
  /** Of all sandboxes together, waiting for an answer. */
  questionsUnderWay: number
  /** Silence on a TCP connection. */
  idleMs: number
}

export type Verdict = 'forward' | 'empty' | 'no-such-name' | 'refuse'

/** Sandboxes have IPv4 alone; the others would tell of ways (QUIC, hidden names) that the gate does not read. */
const answeredEmpty: readonly number[] = [recordTypes.AAAA, recordTypes.SVCB, recordTypes.HTTPS]

/**
 * A name that may not be asked for does not exist: programs give up on that at once, while some wait long after
 * a refusal. Where names are limited only addresses can be asked for: no other record leads anywhere.
 */
export function judge(policy: EgressPolicy, question: Question, serverAllowed: boolean): Verdict {
  if (!question.isInternet || question.type === recordTypes.ANY) return 'refuse'
  if (isOpenByDefault(policy) || serverAllowed) {
    return answeredEmpty.includes(question.type) ? 'empty' : 'forward'
  }
  if (question.name === null || !matchesAny(policy.allowNames, question.name)) return 'no-such-name'
  return question.type === recordTypes.A ? 'forward' : 'empty'
}

export class DnsFront {
  readonly #options: DnsFrontOptions
  readonly #allowances = new WeakMap<Client, { left: number; at: number }>()
  #underWay = 0

  constructor(options: DnsFrontOptions) {
    this.#options = options
  }

  async onMessage(udp: UdpSocket, message: Buffer, from: RemoteInfo): Promise<void> {
    const client = this.#options.clients.get(plainAddress(from.address))
    const question = client && readQuestion(message)
    if (!question) return
    const answer = await this.#answer(client, question)
    if (this.#options.clients.get(plainAddress(from.address)) !== client) return
    const fits = answer.length <= question.mostBytes
    udp.send(fits ? answer : writeAnswer(question, resultCodes.ok, true), from.port, from.address, () => {})
  }

  onConnection(socket: Socket): void {
    const { clients, limits } = this.#options
    const client = clients.get(plainAddress(socket.remoteAddress))
    if (!client || clients.isFull(client)) return void socket.destroy()
    client.asking.add(socket)
    socket.on('error', () => {}).once('close', () => client.asking.delete(socket))
    socket.setTimeout(limits.idleMs, () => socket.destroy())
    void this.#converse(socket, client)
  }

  /** One question after the other, so that nobody has more than one answer waiting. */
  async #converse(socket: Socket, client: Client): Promise<void> {
    let received = Buffer.alloc(0)
    try {
      for await (const chunk of socket) {
        received = Buffer.concat([received, chunk as Buffer])
        while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
          const end = 2 + received.readUInt16BE(0)
          const question = readQuestion(received.subarray(2, end))
          received = received.subarray(end)
          if (!question) return void socket.destroy()
          const answer = framed(await this.#answer(client, question))
          if (!socket.writable) return
          await new Promise((resolve) => socket.write(answer, resolve))
        }
      }
      socket.end()
    } catch {
      socket.destroy()
    }
  }

  async #answer(client: Client, question: Question): Promise<Buffer> {
    const { limits, clock } = this.#options
    if (this.#underWay >= limits.questionsUnderWay || !this.#mayAsk(client)) {
      return writeAnswer(question, resultCodes.refused)
    }
    const servers = this.#serversOf(client.policy)
    const serverAllowed = servers.some((server) =>
      isAddressAllowed({ ...client.policy, internet: false }, server.split(':')[0]!, () => false),
    )
    const verdict = judge(client.policy, question, serverAllowed)
    if (verdict === 'empty') return writeAnswer(question, resultCodes.ok)
    if (verdict === 'no-such-name') return writeAnswer(question, resultCodes.noSuchName)
    if (verdict === 'refuse' || servers.length === 0) return writeAnswer(question, resultCodes.refused)
    this.#underWay += 1
    try {
      const found = await askServers(servers, question, clock)
      return found ? readdress(found, question) : writeAnswer(question, resultCodes.serverFailed)
    } finally {
      this.#underWay -= 1
    }
  }

  /** A policy's own servers are asked only where the sandbox's packets could go. */
  #serversOf({ dnsServers }: EgressPolicy): readonly string[] {
    return (
      dnsServers?.filter((server) => !this.#options.isClosed(server.split(':')[0]!)) ??
      this.#options.dnsServers
    )
  }

  #mayAsk(client: Client): boolean {
    const { limits, clock } = this.#options
    const known = this.#allowances.get(client) ?? { left: limits.questionBurst, at: clock.now() }
    const earned = ((clock.now() - known.at) / 1000) * limits.questionsPerSecond
    const left = Math.min(limits.questionBurst, known.left + Math.max(0, earned))
    this.#allowances.set(client, { left: Math.max(0, left - 1), at: clock.now() })
    return left >= 1
  }
}
