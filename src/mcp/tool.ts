/** A tool: its name and description for the model, the schema of its arguments, and its function. */
import { Ajv, type ValidateFunction } from 'ajv'
import { type Static, type TObject, Type } from 'typebox'
import { AppError } from '../lib/app-error.ts'
import type { WarrenClient } from './warren-client.ts'

type ToolContent = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string }
export type ToolAnswer = { content: ToolContent[]; isError?: boolean }

export type Tool = {
  name: string
  description: string
  inputSchema: TObject
  call(client: WarrenClient, given: unknown, signal: AbortSignal): Promise<ToolAnswer>
}

type ToolOptions<Input extends TObject> = {
  name: string
  description: string
  input: Input
  run(client: WarrenClient, given: Static<Input>, signal: AbortSignal): Promise<string | ToolAnswer>
}

const ajv = new Ajv({ useDefaults: true, strict: false, allErrors: false })

export function tool<Input extends TObject>({ name, description, input, run }: ToolOptions<Input>): Tool {
  let isValid: ValidateFunction | undefined
  return {
    name,
    description,
    inputSchema: input,
    async call(client, given, signal) {
      isValid ??= ajv.compile(input)
      if (!isValid(given))
        throw new AppError('invalid_argument', `Wrong arguments: ${ajv.errorsText(isValid.errors)}`)
      const answer = await run(client, given as Static<Input>, signal)
      return typeof answer === 'string' ? textAnswer(answer) : answer
    },
  }
}

const textAnswer = (text: string): ToolAnswer => ({ content: [{ type: 'text', text }] })

export const SandboxID = Type.String({ description: 'The ID from create_sandbox or list_sandboxes.' })
export const TimeoutSeconds = Type.Integer({
  minimum: 1,
  maximum: 3600,
  default: 60,
  description: 'Seconds after which it is ended.',
})
