/**
 * Stands in for the global `AbortController` when the agent is bundled: the Connect library aborts at the end of every
 * call without saying why, and Node makes an exception with a stack of its callers each time. Here they share one.
 */
let callEnded: DOMException | undefined

function endOfCall(): DOMException {
  callEnded ??= new DOMException('This operation was aborted', 'AbortError')
  return callEnded
}

export class LightAbortController extends globalThis.AbortController {
  override abort(reason: unknown = endOfCall()): void {
    super.abort(reason)
  }
}

export { LightAbortController as AbortController }
