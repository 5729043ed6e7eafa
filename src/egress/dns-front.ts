/**
 * DNS for sandboxes whose connections go through the gate, or that asked a denied server: it answers only
 * questions that their policy allows, so that no question carries data out. Unknown clients get no answer at
 * all.
 */
import type { RemoteInfo, Socket as UdpSocket } from 'node:dgram'
import type { Socket } from 'node:net'
import { addressRules } from '../core/network-policy/egress-policy.ts'
import { matchesAny } from '../core/network-policy/name-patterns.ts'
import type { EgressPolicy } from '../core/ports/egress.ts'
import type { Clock } from '../lib/clock.ts'
import { type AdmittedSandbox, type AdmittedSandboxes, plainAddress } from './admitted-sandboxes.ts'
import { type IsClosed, isAddressAllowed, isOpenByDefault, type OnDecision } from './decide.ts'
import {
  type Question,
  readdress,
  readQuestion,
  recordTypes,
  resultCodes,
  writeAnswer,
} from './dns-message.ts'
import { askServers, framed } from './dns-upstream.ts'

type DnsFrontOptions = {
  sandboxes: AdmittedSandboxes
  dnsServers: readonly string[]
  isClosed: IsClosed
  clock: Clock
  limits: DnsLimits
  onDecision?: OnDecision
}

export type DnsLimits = {
  /** Maximum number of questions of one sandbox, per second and at once. */
  questionsPerSecond: number
  questionBurst: number
  /** Maximum number of questions under way of all sandboxes together. */
  questionsUnderWay: number
  /** Maximum silence on a TCP connection. */
  idleMs: number
}

type Verdict = 'forward' | 'empty' | 'no-such-name' | 'refuse'

/**
 * Sandboxes have IPv4 only, and the other types would advertise protocols (QUIC, hidden names) that the gate
 * does not read.
 */
const answeredEmpty: readonly number[] = [recordTypes.AAAA, recordTypes.SVCB, recordTypes.HTTPS]

/**
 * A denied name is answered as non-existent: programs give up on that at once, while some wait long after a
 * refusal. If names are limited, only addresses can be asked for: no other record leads anywhere.
 */
function judge(policy: EgressPolicy, question: Question, serverAllowed: boolean): Verdict {
  // The question was for a server that the address rules deny.
  if (addressRules(policy).toGate === 'none') return 'no-such-name'
  if (!question.isInternet || question.type === recordTypes.ANY) return 'refuse'
  if (isOpenByDefault(policy) || serverAllowed) {
    return answeredEmpty.includes(question.type) ? 'empty' : 'forward'
  }
  if (question.name === null || !matchesAny(policy.allowNames, question.name)) return 'no-such-name'
  return question.type === recordTypes.A ? 'forward' : 'empty'
}

export class DnsFront {
  readonly #options: DnsFrontOptions
  readonly #allowances = new WeakMap<AdmittedSandbox, { left: number; at: number }>()
  #underWay = 0

  constructor(options: DnsFrontOptions) {
    this.#options = options
  }

  async onMessage(udp: UdpSocket, message: Buffer, from: RemoteInfo): Promise<void> {
    const sandbox = this.#options.sandboxes.get(plainAddress(from.address))
    const question = sandbox && readQuestion(message)
    if (!question) return
    const answer = await this.#answer(sandbox, question)
    if (this.#options.sandboxes.get(plainAddress(from.address)) !== sandbox) return
    const fits = answer.length <= question.maxBytes
    udp.send(fits ? answer : writeAnswer(question, resultCodes.ok, true), from.port, from.address, () => {})
  }

  onConnection(socket: Socket): void {
    const { sandboxes, limits } = this.#options
    const sandbox = sandboxes.get(plainAddress(socket.remoteAddress))
    if (!sandbox || sandboxes.isFull(sandbox)) return void socket.destroy()
    sandbox.asking.add(socket)
    socket.on('error', () => {}).once('close', () => sandbox.asking.delete(socket))
    socket.setTimeout(limits.idleMs, () => socket.destroy())
    void this.#converse(socket, sandbox)
  }

  /** Handles one question after the other, so that a client has at most one answer waiting. */
  async #converse(socket: Socket, sandbox: AdmittedSandbox): Promise<void> {
    let received = Buffer.alloc(0)
    try {
      for await (const chunk of socket) {
        received = Buffer.concat([received, chunk as Buffer])
        while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
          const end = 2 + received.readUInt16BE(0)
          const question = readQuestion(received.subarray(2, end))
          received = received.subarray(end)
          if (!question) return void socket.destroy()
          const answer = framed(await this.#answer(sandbox, question))
          if (!socket.writable) return
          await new Promise((resolve) => socket.write(answer, resolve))
        }
      }
      socket.end()
    } catch {
      socket.destroy()
    }
  }

  async #answer(sandbox: AdmittedSandbox, question: Question): Promise<Buffer> {
    const { limits, clock } = this.#options
    if (this.#underWay >= limits.questionsUnderWay || !this.#mayAsk(sandbox)) {
      return writeAnswer(question, resultCodes.refused)
    }
    const servers = this.#serversOf(sandbox.policy)
    const serverAllowed = servers.some((server) =>
      isAddressAllowed({ ...sandbox.policy, internet: false }, server.split(':')[0]!, () => false),
    )
    const verdict = judge(sandbox.policy, question, serverAllowed)
    this.#options.onDecision?.('dns', verdict === 'forward' || verdict === 'empty')
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

  /** A policy's own servers are asked only if the sandbox's packets could reach them. */
  #serversOf({ dnsServers }: EgressPolicy): readonly string[] {
    return (
      dnsServers?.filter((server) => !this.#options.isClosed(server.split(':')[0]!)) ??
      this.#options.dnsServers
    )
  }

  #mayAsk(sandbox: AdmittedSandbox): boolean {
    const { limits, clock } = this.#options
    const known = this.#allowances.get(sandbox) ?? { left: limits.questionBurst, at: clock.now() }
    const earned = ((clock.now() - known.at) / 1000) * limits.questionsPerSecond
    const left = Math.min(limits.questionBurst, known.left + Math.max(0, earned))
    this.#allowances.set(sandbox, { left: Math.max(0, left - 1), at: clock.now() })
    return left >= 1
  }
}
