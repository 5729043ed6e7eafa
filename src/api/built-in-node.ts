import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RouteContext } from './context.ts'
import { exchangeOf } from './pass-on.ts'

/** Forwards the request to the node that builds or built the built-in template: it has the log. */
export function passOnToItsNode({ builtIns, cluster }: RouteContext) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const build = cluster && (await builtIns.newestBuild((request.params as { name: string }).name))
    if (!build) return
    const what = { kind: 'build', id: build.buildID } as const
    if ((await cluster.forwarder.forward(what, exchangeOf(request, reply))) === 'answered') reply.hijack()
  }
}
