/**
 * Traces operations: how long each takes, how it ends, and which other operations it contains. Folders depend only on this
 * interface; the app turns it into histograms and, if the operator wants them, traces.
 */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>

export interface Tracer {
  /**
   * Calls `work` at once and returns its result. `operation` is a constant name, such as `driver.start`. Texts that clients
   * choose belong into the attributes, which never become labels of metrics.
   */
  trace<T>(operation: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T>
}

export const noTracer: Tracer = { trace: (_operation, _attributes, work) => work() }

type Method = (...args: unknown[]) => unknown

/**
 * Returns the same object with the named methods traced as `prefix.method`; all of them must return promises. Calls of the
 * object to itself are not traced.
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
    // This object lacks the optional method.
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
      // Private fields exist on the original object only.
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
