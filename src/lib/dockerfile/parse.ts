/**
 * Turns a Dockerfile into the steps of a template, like the clients' own `fromDockerfile`: it begins as root in /, and ends
 * as `user` in /home/user unless it says otherwise; ARG sets a variable like ENV. Unsupported instructions are rejected with
 * their line; instructions without a meaning in a sandbox are ignored with a note.
 */
import { AppError } from '../app-error.ts'
import { commandOf, type DockerCommand, inShell, scriptOf, startCommand } from './commands.ts'
import { copySteps } from './copy.ts'
import { DockerfileError, type Instruction, readInstructions, shown } from './instructions.ts'
import type { DockerStep } from './step.ts'
import { KnownValues } from './values.ts'
import { flagsOf, listOf, type Refuse, shellJoin, wordOf, wordsOf } from './words.ts'

export type DockerTemplate = {
  image: string
  steps: DockerStep[]
  startCmd: string | null
  /** The number of `LABEL warren.gpus=N`. */
  gpuCount?: number
  /** Notes on ignored instructions, each with the reason why that is harmless. */
  notes: string[]
}

/** The clients' ready command for a start command without one. */
export const waitForStart = 'sleep 20'

const passedOver: Record<string, string> = {
  EXPOSE: 'every port of a sandbox can be reached',
  MAINTAINER: 'templates have no labels',
  VOLUME: 'all that a sandbox writes is kept with it',
  STOPSIGNAL: 'sandboxes are ended as a whole',
  HEALTHCHECK: 'use --ready-cmd to say when the start command is ready',
}
const ofPlatform = /^(?:TARGET|BUILD)(?:PLATFORM|OS|ARCH|VARIANT)$/

export function parseDockerfile(
  text: string,
  buildArgs: Readonly<Record<string, string>> = {},
): DockerTemplate {
  return new Translation(buildArgs).run(readInstructions(text))
}

class Translation {
  readonly #values: KnownValues
  readonly #steps: DockerStep[] = []
  readonly #notes: string[] = []
  #image: string | undefined
  #user: string | undefined
  #hasWorkdir = false
  #shell: string[] = []
  #gpuCount: number | undefined
  #entrypoint: DockerCommand | undefined
  #cmd: DockerCommand | undefined

  constructor(buildArgs: Readonly<Record<string, string>>) {
    this.#values = new KnownValues(buildArgs)
  }

  run(instructions: Instruction[]): DockerTemplate {
    for (const instruction of instructions) this.#interpret(instruction)
    const last = instructions.at(-1)?.line ?? 1
    if (this.#image === undefined) {
      throw new AppError(
        'invalid_argument',
        'The Dockerfile has no FROM: begin it with the image to start from.',
      )
    }
    if (this.#user === undefined) this.#add('USER', ['user'], last)
    if (!this.#hasWorkdir) this.#add('WORKDIR', ['/home/user'], last)
    const unused = this.#values.unusedBuildArgs()
    if (unused.length > 0)
      this.#notes.push(`--build-arg ${unused.join(', ')}: no ARG of the Dockerfile asks for it`)
    return {
      image: this.#image,
      steps: this.#steps,
      startCmd: startCommand(this.#entrypoint, this.#cmd),
      ...(this.#gpuCount !== undefined && { gpuCount: this.#gpuCount }),
      notes: this.#notes,
    }
  }

  #interpret(instruction: Instruction): void {
    const { line, keyword, rest } = instruction
    const refuse: Refuse = (problem) => {
      throw new DockerfileError(line, problem)
    }
    if (this.#image === undefined && keyword !== 'FROM' && keyword !== 'ARG') refuse('FROM must come first.')
    const handler = Object.hasOwn(this.#handlers, keyword) ? this.#handlers[keyword] : undefined
    if (handler && rest === '') refuse(`${keyword} says nothing.`)
    if (handler) withLine(() => handler(instruction, refuse), refuse)
    else if (Object.hasOwn(passedOver, keyword))
      this.#note(line, `${keyword} is ignored: ${passedOver[keyword]}`)
    else refuse(`there is no instruction '${shown(keyword)}'.`)
  }

  readonly #handlers: Record<string, (instruction: Instruction, refuse: Refuse) => void> = {
    FROM: ({ rest, line }, refuse) => this.#from(rest, line, refuse),
    ARG: ({ rest, line }, refuse) => this.#arg(rest, line, refuse),
    ENV: ({ rest, line }, refuse) => this.#env(rest, line, refuse),
    RUN: (instruction, refuse) => this.#run(instruction, refuse),
    COPY: (instruction, refuse) => this.#copy(instruction, refuse),
    ADD: (instruction, refuse) => this.#copy(instruction, refuse),
    WORKDIR: ({ rest, line }, refuse) => {
      this.#hasWorkdir = true
      this.#add('WORKDIR', [oneWord(rest, refuse)], line)
    },
    USER: ({ rest, line }, refuse) => {
      this.#user = oneWord(rest, refuse)
      this.#add('USER', [this.#user], line)
    },
    SHELL: ({ rest }, refuse) => {
      this.#shell = listOf(rest, refuse) ?? []
      if (this.#shell.length === 0) refuse('SHELL takes a list, such as ["/bin/bash", "-c"].')
    },
    CMD: ({ rest }, refuse) => {
      this.#cmd = commandOf(rest, this.#shell, refuse)
    },
    ENTRYPOINT: ({ rest }, refuse) => {
      this.#entrypoint = commandOf(rest, this.#shell, refuse)
    },
    LABEL: ({ rest, line }, refuse) => {
      const label = /(?:^|\s)"?warren\.gpus"?\s*[=\s]\s*"?([^\s"]*)"?/.exec(rest)?.[1]
      if (label === undefined) return this.#note(line, 'LABEL is ignored: templates have no labels')
      if (!/^\d{1,2}$/.test(label)) refuse(`warren.gpus is a number of GPUs, not '${shown(label)}'.`)
      this.#gpuCount = Number(label)
    },
    ONBUILD: (_, refuse) =>
      refuse('ONBUILD cannot be kept in a template: write its instruction where it is needed.'),
  }

  #copy(instruction: Instruction, refuse: Refuse): void {
    const context = { values: this.#values, user: this.#user ?? 'root', refuse }
    this.#steps.push(...copySteps(instruction, context))
  }

  #from(text: string, line: number, refuse: Refuse): void {
    if (this.#image !== undefined) {
      refuse(
        'a second FROM: templates have one stage. Build what it makes with RUN here, or as a template of its own.',
      )
    }
    const { flags, rest } = flagsOf(text)
    for (const [name] of flags) {
      if (name !== 'platform') refuse(`FROM takes no --${name}.`)
      this.#note(line, "--platform is ignored: images are taken for the server's machine")
    }
    const [name = '', as, stage, ...more] = wordsOf(rest, refuse)
    if (more.length > 0 || (as !== undefined && (as.toUpperCase() !== 'AS' || !stage))) {
      refuse('FROM takes one image.')
    }
    const image = this.#values.inFrom(name)
    if (!/^\S+$/.test(image))
      refuse(`FROM '${shown(name)}' names no image: set its variables with ARG before it.`)
    if (image === 'scratch')
      refuse('FROM scratch has nothing to run steps in: begin with an image that has a shell.')
    this.#image = image
    this.#add('USER', ['root'], line)
    this.#add('WORKDIR', ['/'], line)
  }

  #arg(rest: string, line: number, refuse: Refuse): void {
    const pairs: string[] = []
    for (const word of wordsOf(rest, refuse)) {
      const [, name, fallback] = /^([A-Za-z_]\w*)(?:=([\s\S]*))?$/.exec(word) ?? []
      if (name === undefined) refuse(`ARG takes NAME or NAME=default, not '${shown(word)}'.`)
      if (this.#image === undefined) this.#values.declareGlobal(name, fallback)
      else {
        const value = this.#values.declare(name, fallback)
        if (value !== undefined) pairs.push(name, value)
        else if (ofPlatform.test(name))
          this.#note(line, `${name} is not set: give it with --build-arg ${name}=…`)
      }
    }
    if (pairs.length > 0) this.#add('ENV', pairs, line)
  }

  #env(rest: string, line: number, refuse: Refuse): void {
    const [, first = '', text] = /^(\S+)(?:\s+([\s\S]*))?$/.exec(rest) ?? []
    // The older form of ENV: one name, and the rest of the line is its value.
    const pairs = first.includes('=')
      ? wordsOf(rest, refuse).flatMap((word) => {
          const at = word.indexOf('=')
          if (at < 0) refuse(`ENV takes NAME=value, not '${shown(word)}': put a value with spaces in quotes.`)
          return [word.slice(0, at), word.slice(at + 1)]
        })
      : [first, wordOf(text ?? refuse(`ENV ${shown(first)} has no value.`), refuse)]
    for (let at = 0; at < pairs.length; at += 2) {
      const name = pairs[at]!
      if (!/^[A-Za-z_][\w.-]*$/.test(name)) refuse(`'${shown(name)}' is no name of a variable.`)
      this.#values.setEnv(name, pairs[at + 1]!)
    }
    this.#add('ENV', pairs, line)
  }

  #run({ line, rest, shellText, heredocs }: Instruction, refuse: Refuse): void {
    const { flags, rest: command } = flagsOf(rest)
    for (const [name, value] of flags) {
      const isHarmless =
        (name === 'mount' && /(?:^|,)type=(?:cache|tmpfs)(?:,|$)/.test(value)) ||
        `${name}=${value}` === 'network=default'
      if (!isHarmless)
        refuse(`RUN --${name}=${shown(value)} cannot be honoured: use COPY for files, ENV for values.`)
      this.#note(line, `RUN --${name} is ignored: what it writes there stays in the template`)
    }
    const list = listOf(command, refuse)
    if (list) {
      if (list.length === 0) refuse('RUN takes a command.')
      this.#add('RUN', [shellJoin(list)], line)
      return
    }
    const [heredoc] = heredocs
    const isScript = heredoc && command.replace(/^<<-?/, '').replace(/['"]/g, '') === heredoc.name
    const text = isScript ? scriptOf(heredoc.body) : shellText.slice(rest.length - command.length)
    if (text.trim() === '') refuse('RUN takes a command.')
    this.#add('RUN', [inShell(text, this.#shell)], line)
  }

  #add(type: DockerStep['type'], args: string[], line: number): void {
    this.#steps.push({ type, args, line })
  }

  #note(line: number, text: string): void {
    this.#notes.push(`line ${line}: ${text}`)
  }
}

/** Adds the line to errors of the expansion of variables, which does not know it. */
function withLine(work: () => void, refuse: Refuse): void {
  try {
    work()
  } catch (error) {
    if (error instanceof DockerfileError || !(error instanceof AppError)) throw error
    refuse(`${error.message}.`)
  }
}

function oneWord(rest: string, refuse: Refuse): string {
  const [word, ...more] = wordsOf(rest, refuse)
  if (!word || more.length > 0) refuse('one word is wanted: put spaces in quotes.')
  return word!
}
