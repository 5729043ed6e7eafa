/**
 * Following operations: how long each takes, how it ends, and which others it is made of. Rooms know only this; the app
 * makes histograms and, where the operator wants them, traces of it.
 */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>

export interface Tracer {
  /**
   * Calls `work` at once and passes on what comes of it. `operation` is a name of this code, such as `driver.start`;
   * what clients choose belongs into the attributes, which no figure is labelled with.
   */
  trace<T>(operation: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T>
}

export const noTracer: Tracer = { trace: (_operation, _attributes, work) => work() }

type Method = (...args: unknown[]) => unknown

/**
 * The same object with the named methods traced as `prefix.method`; all of them must return promises. What the object
 * calls on itself is not traced.
 */
export function traced<T extends object>(
  target: T,
  prefix: string,
  tracer: Tracer,
  methods: readonly (keyof T & string)[],
  attributesOf: (...args: never[]) => TraceAttributes = () => ({}),
): T {
  const wrapped = new Map<PropertyKey, Method>()
  for (const name of methods) {
    const method = target[name] as Method | undefined
    // A power that this object does not have.
    if (method === undefined) continue
    const operation = `${prefix}.${name}`
    wrapped.set(name, (...args) =>
      tracer.trace(
        operation,
        (attributesOf as (...args: unknown[]) => TraceAttributes)(...args),
        () => method.apply(target, args) as Promise<unknown>,
      ),
    )
  }
  return new Proxy(target, {
    get(_, key) {
      const known = wrapped.get(key)
      if (known) return known
      const value = Reflect.get(target, key, target)
      // Private fields are those of the object itself.
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Every method of the object's class, for objects all of whose methods return promises. */
export function methodNames<T extends object>(target: T): (keyof T & string)[] {
  return Object.getOwnPropertyNames(Object.getPrototypeOf(target)).filter(
    (name): name is keyof T & string => name !== 'constructor',
  )
}
