/** All contexts of the sandbox, in the order of their creation, and which one is meant by a language alone. */
import { AppError, errorText } from '../lib/app-error.ts'
import { JoinedWork } from '../lib/keyed-lock.ts'
import { Context, type ContextParts, type ContextRequest } from './context.ts'
import { defaultLanguage, kernelKind, noKernel } from './languages.ts'

/** Each has a process of its own; more would only starve the sandbox. */
const mostContexts = 100

export class Contexts {
  readonly #parts: ContextParts
  readonly #contexts = new Map<string, Context>()
  readonly #defaults = new Map<string, Context>()
  /** Requests that need the same default at once wait for the same one. */
  readonly #making = new JoinedWork<Context>()

  constructor(parts: ContextParts) {
    this.#parts = parts
  }

  list(): Context[] {
    return [...this.#contexts.values()]
  }

  async create(request: ContextRequest): Promise<Context> {
    if (!kernelKind(request.language)) throw noKernel(request.language)
    if (this.#contexts.size >= mostContexts) {
      throw new AppError(
        'limit_reached',
        `There are ${mostContexts} contexts, which is the most; remove one.`,
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

  /** The default of a language is made when it is first needed. */
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
