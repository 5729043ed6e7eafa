/** All contexts of the sandbox in the order of their creation, and the default context of each language. */
import { AppError, errorText } from '../lib/app-error.ts'
import { JoinedWork } from '../lib/keyed-lock.ts'
import { Context, type ContextParts, type ContextRequest } from './context.ts'
import { defaultLanguage, kernelKind, noKernel } from './languages.ts'

/** Each context has its own process; more would only starve the sandbox. */
const maxContexts = 100

export class Contexts {
  readonly #parts: ContextParts
  readonly #contexts = new Map<string, Context>()
  readonly #defaults = new Map<string, Context>()
  /** Concurrent requests for the same default context share its creation. */
  readonly #making = new JoinedWork<Context>()

  constructor(parts: ContextParts) {
    this.#parts = parts
  }

  list(): Context[] {
    return [...this.#contexts.values()]
  }

  async create(request: ContextRequest): Promise<Context> {
    if (!kernelKind(request.language)) throw noKernel(request.language)
    if (this.#contexts.size >= maxContexts) {
      throw new AppError(
        'limit_reached',
        `There are ${maxContexts} contexts, which is the limit; remove one.`,
      )
    }
    const context = new Context(request, this.#parts)
    this.#contexts.set(context.id, context)
    try {
      await context.started
      return context
    } catch (error) {
      this.#contexts.delete(context.id)
      context.close()
      throw new AppError('unavailable', errorText(error), { cause: error })
    }
  }

  find(id: string): Context {
    const context = this.#contexts.get(id)
    if (!context) throw new AppError('not_found', 'Context ID not found')
    return context
  }

  /** The default context of a language is created on first use. */
  async defaultOf(language: string = defaultLanguage): Promise<Context> {
    const known = this.#defaults.get(language)
    if (known && this.#contexts.has(known.id)) return known
    return this.#making.run(language, async () => {
      const made = await this.create({ language, cwd: this.#parts.homeFolder })
      this.#defaults.set(language, made)
      return made
    })
  }

  remove(id: string): void {
    const context = this.find(id)
    this.#contexts.delete(id)
    context.close()
  }

  close(): void {
    for (const context of this.#contexts.values()) context.close()
  }
}
