/** Converts the credentials that a user gives for a registry into the user name and password for it. */
import type { RegistryCredentials } from '../core/ports/images.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { signRequest } from './aws-signature.ts'
import type { HttpClient } from './http-client.ts'

export type Login = { username: string; password: string }

type LoginParts = {
  http: HttpClient
  clock: Clock
  /** The address of ECR in a region. */
  ecrEndpoint: (region: string) => string
  signal: AbortSignal
}

const largestAnswer = 1 << 20

export async function loginOf(credentials: RegistryCredentials, parts: LoginParts): Promise<Login> {
  if (credentials.type === 'registry')
    return { username: credentials.username, password: credentials.password }
  if (credentials.type === 'gcp') return { username: '_json_key', password: serviceAccount(credentials) }
  return ecrLogin(credentials, parts)
}

export const awsEndpoint = (region: string): string =>
  `https://api.ecr.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}/`

function serviceAccount({ serviceAccountJSON }: { serviceAccountJSON: string }): string {
  try {
    JSON.parse(serviceAccountJSON)
  } catch {
    throw new AppError('invalid_argument', 'The service account for the registry is not JSON.')
  }
  return serviceAccountJSON
}

async function ecrLogin(
  { accessKeyID, secretAccessKey, region }: Extract<RegistryCredentials, { type: 'aws' }>,
  { http, clock, ecrEndpoint, signal }: LoginParts,
): Promise<Login> {
  // The region becomes part of a host name.
  if (!/^[a-z]{2}(?:-[a-z]+)+-\d{1,2}$/.test(region)) {
    throw new AppError('invalid_argument', 'The AWS region of the registry is not one such as eu-central-1.')
  }
  const url = new URL(ecrEndpoint(region))
  const body = '{}'
  const target = 'AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken'
  const headers = await signRequest(
    {
      method: 'POST',
      url,
      headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target },
      body,
    },
    { accessKeyID, secretAccessKey, region, service: 'ecr' },
    clock.now(),
  )
  const answer = await http.ask(url, { headers, body, signal })
  const bytes = await http.readAll(answer, largestAnswer, signal)
  const [username, password] = answer.status === 200 ? tokenIn(bytes) : []
  if (!username || !password) {
    throw new AppError(
      'permission_denied',
      `AWS gives no access to ECR in ${region} with these keys (it answered ${answer.status}). Check the keys and that they may call ecr:GetAuthorizationToken.`,
    )
  }
  return { username, password }
}

function tokenIn(bytes: Buffer): string[] {
  try {
    const answer = JSON.parse(bytes.toString()) as { authorizationData: { authorizationToken: string }[] }
    const text = Buffer.from(answer.authorizationData[0]!.authorizationToken, 'base64').toString()
    return [text.slice(0, text.indexOf(':')), text.slice(text.indexOf(':') + 1)]
  } catch {
    return []
  }
}
