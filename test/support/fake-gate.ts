import type { EgressGate, GateClient } from '../../src/core/ports/egress.ts'

/** Knows who was admitted, by address. */
export class FakeGate implements EgressGate {
  readonly clients = new Map<string, GateClient>()

  admit(address: string, client: GateClient): void {
    this.clients.set(address, client)
  }

  forget(address: string, start: string): void {
    if (this.clients.get(address)?.start === start) this.clients.delete(address)
  }

  async close(): Promise<void> {}
}
