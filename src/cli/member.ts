import type { Member } from '../contract/rest/person.ts'
import { UsageError } from './arguments.ts'
import { asJson, table } from './output.ts'
import type { PeopleClient } from './people-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<PeopleClient>

const command = 'warren team member'
const roles = ['viewer', 'member', 'owner']

export const memberVerbs: VerbTable<Connect> = {
  name: 'team member',
  does: 'the people of a team and their roles',
  notes: "TEAM is a team's slug, id or name; PERSON an e-mail address or id; ROLE viewer, member or owner.",
  verbs: {
    add: {
      does: 'Adds a person; who has never signed in is invited.',
      words: ['TEAM', 'EMAIL'],
      texts: { role: 'ROLE' },
      options: { role: 'what the person may do (default: member)' },
      run: add,
    },
    list: { does: 'Shows the members and who is invited.', words: ['TEAM'], run: list },
    role: {
      does: 'Changes the role of a member, at once.',
      words: ['TEAM', 'PERSON', 'ROLE'],
      run: setRole,
    },
    remove: {
      does: 'Removes a member, whose keys in the team end at once.',
      words: ['TEAM', 'PERSON'],
      run: remove,
    },
  },
}

async function add({ words: [team, email], values, json }: Given, connect: Connect): Promise<string> {
  const role = requireRole(values.role ?? 'member')
  const client = await connect()
  const { teamID, slug } = await client.findTeam(team!)
  const member = await client.addMember(teamID, email!, role)
  if (json) return asJson(member)
  const who = `${email} is ${role === 'owner' ? 'an' : 'a'} ${role} of team ${slug}`
  return member.hasSignedIn ? `${who}.` : `${who} from the first sign-in on.`
}

async function list({ words: [team], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const members = await client.listMembers((await client.findTeam(team!)).teamID)
  return json ? asJson(members) : show(members)
}

async function setRole({ words: [team, person, role], json }: Given, connect: Connect): Promise<string> {
  requireRole(role!)
  const client = await connect()
  const { teamID } = await client.findTeam(team!)
  const { personID, name } = await client.findMember(teamID, person!)
  await client.setRole(teamID, personID, role!)
  return json ? asJson({ personID, role }) : `The role of ${name} is ${role}.`
}

async function remove({ words: [team, person], json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const { teamID, slug } = await client.findTeam(team!)
  const { personID, name } = await client.findMember(teamID, person!)
  await client.removeMember(teamID, personID)
  return json ? asJson({ personID, removed: true }) : `${name} is no longer in team ${slug}.`
}

export function requireRole(role: string, of = command): string {
  if (roles.includes(role)) return role
  throw new UsageError(`'${role}' is no role: use viewer, member or owner.`, of)
}

function show(members: Member[]): string {
  const rows = members.map(({ name, email, role, source, hasSignedIn, lastSignInAt, personID }) => [
    email ?? '',
    name === email ? '' : name,
    role,
    source === 'provider' ? 'group' : 'by hand',
    hasSignedIn ? (lastSignInAt?.slice(0, 16).replace('T', ' ') ?? '') : 'invited',
    personID,
  ])
  return table(['EMAIL', 'NAME', 'ROLE', 'FROM', 'SIGNED IN', 'ID'], rows)
}
