// SPDX-License-Identifier: Apache-2.0
// compare.js: the gateway's MQTT codec against the npm package mqtt-packet, over generated and damaged packets.
//
// usage: node compare.js MODULES PROBE COUNT SEED
//
// Both parse each packet. Where both accept, they must have read the same; what the codec writes for it must be read the same
// again by mqtt-packet. Where only one accepts, the reason must be in one of the two tables below, with the section of the
// standard that decides; anything else is a failure. A packet that was not damaged must be accepted by both.
'use strict'
const path = require('path')
const { spawnSync } = require('child_process')
const { Random, make, mutate } = require('./packets')

const [modules, probe, count, seed] = process.argv.slice(2)
const mqtt = require(path.join(modules, 'mqtt-packet'))
const constants = require(path.join(modules, 'mqtt-packet', 'constants'))

// The codec refuses, mqtt-packet accepts: what decides. 5.0 unless said otherwise; 3.1.1 has the same rule where it has
// the packet.
const STRICTER = {
  reserved_type: '2.1.2', reserved_flags: '2.1.3, MQTT-2.1.3-1', wrong_direction: '2.1.2 table 2-1', not_connect: '3.1, MQTT-3.1.0-1',
  second_connect: '3.1, MQTT-3.1.0-2',
  varint_too_long: '1.5.5', varint_not_minimal: '1.5.5, MQTT-1.5.5-1', packet_too_large: '3.1.2.11.4', truncated: '4.13, malformed packet',
  trailing_bytes: '4.13, malformed packet', bad_utf8: '1.5.4, MQTT-1.5.4-1, -2', packet_id_zero: '2.2.1, MQTT-2.2.1-3',
  protocol_name: '3.1.2.1', protocol_level: '3.1.2.2', connect_reserved_flag: '3.1.2.3', will_flags: '3.1.2.6', will_qos: '3.1.2.6, MQTT-3.1.2-12',
  password_without_user_name: '3.1.1: 3.1.2.9, MQTT-3.1.2-22', client_id_empty: '3.1.1: 3.1.3.1, MQTT-3.1.3-8; 3.1: CONNECT, client identifier',
  publish_qos: '3.3.1.2, MQTT-3.3.1-4', publish_dup: '3.3.1.1, MQTT-3.3.1-2', topic_empty: '4.7.3, MQTT-4.7.3-1', topic_wildcard: '3.3.2.1, MQTT-3.3.2-2',
  topic_alias_zero: '3.3.2.3.4, MQTT-3.3.2-8', response_topic: '3.3.2.3.5, MQTT-3.3.2-14', property_unknown: '2.2.2.2',
  property_misplaced: '2.2.2.2', property_direction: '3.3.4, 3.14.2.2.2', property_repeated: '2.2.2.2', property_value: '2.2.2.2',
  auth_data_without_method: '3.1.2.11.10', auth_method_missing: '3.15.2.2.2', no_filters: '3.8.3, MQTT-3.8.3-2',
  filter_malformed: '4.7.1, MQTT-4.7.1-1', share_malformed: '4.8.2, MQTT-4.8.2-1', subscription_options: '3.8.3.1, MQTT-3.8.3-5',
  subscription_qos: '3.8.3.1', retain_handling: '3.8.3.1', no_local_shared: '3.8.3.1, MQTT-3.8.3-4', reason_code: '2.4', connack_flags: '3.2.2.1, MQTT-3.2.2-1',
  session_present: '3.2.2.1.1, MQTT-3.2.2-6', no_reason_codes: '3.9.3, 3.11.3', topic_levels: 'a limit of the gateway, not of the standard'
}

// mqtt-packet refuses, the codec accepts.
const LOOSER = [
  [/^Invalid auth reason code$/, (p) => p.t === 15 && p.code === 0, '3.15.2.1: without a reason code it is 0x00, success'],
  [/^Invalid (disconnect|puback|pubrec|pubrel|pubcomp|auth) reason code$/, (p) => p.code !== undefined, '2.4: the table of reason codes'],
  [/^Invalid (suback|unsuback) code$/, (p) => p.codes !== undefined, '3.9.3 and 3.11.3: the tables of reason codes'],
  [/^Invalid suback QoS/, (p) => p.codes !== undefined, '3.1.1: 3.9.3'],
  [/^Invalid connack flags/, (p, version) => version === 3 && p.t === 2, '3.1: CONNACK: the byte is reserved and not used'],
  [/^Cannot parse (username|password)$/, (p, version) => version === 3 && p.t === 1, '3.1: CONNECT: the fields may be missing in spite of the flags'],
  [/^Connect flag bit 0/, (p, version) => version === 3 && p.t === 1, '3.1: CONNECT: bit 0 of the flags is not used'],
  [/^Invalid header flag bits/, (p, version) => version === 3, '3.1: fixed header: DUP may be set, other flags are not used']
]

const hex = (s) => s === undefined || s === null ? null : Buffer.from(s).toString('hex')
const number = (v) => Number(v === undefined ? 0 : v)

function propertyList (list) {
  const out = []
  for (const [name, value] of Object.entries(list || {})) {
    const code = constants.properties[name]
    const type = constants.propertiesTypes[name]
    if (type === 'pair') {
      for (const key of Object.keys(value)) for (const one of [].concat(value[key])) out.push(`${code}=${hex(key)}:${hex(one)}`)
    } else {
      const values = Array.isArray(value) && type !== 'binary' ? value : [value]
      for (const one of values) out.push(`${code}=${type === 'string' || type === 'binary' ? hex(one) : number(one)}`)
    }
  }
  return out.sort()
}

const TYPES = Object.fromEntries(Object.entries(constants.types).map(([code, name]) => [name, Number(code)]))

// What mqtt-packet read, in the words of codec_probe.c.
function canonical (p, version) {
  const out = { t: TYPES[p.cmd] }
  const props = propertyList(p.properties)
  switch (p.cmd) {
    case 'connect':
      Object.assign(out, { v: p.protocolVersion, bridge: number(p.bridgeMode), clean: number(p.clean), ka: p.keepalive, id: hex(p.clientId), user: hex(p.username), pass: hex(p.password), props })
      if (p.will) out.will = { qos: p.will.qos, retain: number(p.will.retain), topic: hex(p.will.topic), payload: hex(p.will.payload), props: propertyList(p.will.properties) }
      return out
    case 'connack': return Object.assign(out, { sp: number(p.sessionPresent), code: version === 5 ? p.reasonCode : p.returnCode, props })
    case 'publish': return Object.assign(out, { dup: number(p.dup), retain: number(p.retain), qos: p.qos, id: number(p.messageId), topic: hex(p.topic), payload: hex(p.payload), props })
    case 'subscribe': {
      const filters = p.subscriptions.map((s) => version === 5 ? [hex(s.topic), s.qos, number(s.nl), number(s.rap), s.rh] : [hex(s.topic), s.qos])
      return Object.assign(out, { id: p.messageId, filters, props })
    }
    case 'unsubscribe': return Object.assign(out, { id: p.messageId, filters: p.unsubscriptions.map((t) => [hex(t)]), props })
    case 'suback':
    case 'unsuback': return Object.assign(out, { id: p.messageId, codes: Buffer.from(p.granted || []).toString('hex'), props })
    case 'pingreq':
    case 'pingresp': return Object.assign(out, { ping: 1 })
    case 'disconnect':
    case 'auth': return Object.assign(out, { code: number(p.reasonCode), props })
    default: return Object.assign(out, { id: p.messageId, code: number(p.reasonCode), props })
  }
}

// 3.1 has no session present flag: byte 1 of its CONNACK is reserved and not used.
function ours (line, version) {
  const p = JSON.parse(line)
  for (const owner of [p, p.will]) if (owner && owner.props) owner.props.sort()
  delete p.again
  return p
}

const sorted = (v) => JSON.stringify(v, (key, value) => value && typeof value === 'object' && !Array.isArray(value)
  ? Object.fromEntries(Object.entries(value).sort())
  : value)

function theirs (buf, version) {
  // A CONNECT says its version by itself; for the others the parser is told.
  const parser = mqtt.parser({ protocolVersion: version === 0 ? 4 : version })
  const packets = []
  let error = null
  parser.on('packet', (p) => packets.push(p))
  parser.on('error', (e) => { error = error || e.message })
  let left = 0
  try {
    left = parser.parse(buf)
  } catch (e) {
    error = error || `threw: ${e.message}`
  }
  if (error) return { error }
  if (packets.length !== 1 || left !== 0) return { error: 'incomplete' }
  try {
    return { packet: canonical(packets[0], version) }
  } catch (e) {
    return { error: `unreadable: ${e.message}` } // it took a packet that it could not read whole
  }
}

// mqtt-packet keeps user properties in an object: an empty value is overwritten by the next of that name, and a reason it does
// not keep apart. Such lists can not be compared.
const namesRepeat = (props) => {
  const names = (props || []).filter((p) => p.startsWith('38=')).map((p) => p.split(':')[0])
  return new Set(names).size !== names.length
}
const incomparable = (p) => namesRepeat(p.props) || namesRepeat(p.will && p.will.props)

function probeRun (cases) {
  const input = cases.map((c) => `${c.sender} ${c.wire} ${c.buf.toString('hex')}\n`).join('')
  const run = spawnSync(probe, [], { input, maxBuffer: 1 << 30 })
  if (run.status !== 0) {
    process.stdout.write(run.stderr)
    throw new Error(`the codec ended with status ${run.status}`)
  }
  return run.stdout.toString().trimEnd().split('\n')
}

const tally = { both: 0, refused: 0, cut: 0 }
const stricter = {}
const looser = {}
const failures = []

function judge (c, line) {
  const mine = JSON.parse(line)
  const other = theirs(c.buf, c.version)
  const fail = (what) => failures.push(`${what}: ${c.sender} ${c.version} ${c.buf.toString('hex')}\n  codec:       ${line}\n  mqtt-packet: ${JSON.stringify(other)}`)
  // More or fewer bytes than one packet: a connection's business, not the parsers'.
  if (mine.fault === 'incomplete') {
    tally.cut++
    return
  }
  if (mine.fault && other.error) {
    if (!c.damaged) return fail('both refuse a packet that was not damaged')
    tally.refused++
    return
  }
  if (mine.fault) {
    if (!c.damaged) return fail('the codec refuses a packet that was not damaged')
    if (STRICTER[mine.fault] === undefined) return fail('the codec refuses, without a section that says so')
    stricter[mine.fault] = (stricter[mine.fault] || 0) + 1
    return
  }
  const parsed = ours(line, c.version)
  if (other.error) {
    if (!c.damaged) return fail('mqtt-packet refuses a packet that was not damaged')
    const known = LOOSER.find(([message, holds]) => message.test(other.error) && holds(parsed, c.version))
    if (!known) return fail('the codec accepts, without a section that says so')
    looser[other.error] = { section: known[2], n: ((looser[other.error] || {}).n || 0) + 1 }
    return
  }
  if (incomparable(parsed)) return
  if (c.version === 3 && parsed.t === 2) parsed.sp = other.packet.sp
  // 3.1: DUP applies where QoS is greater than 0.
  if (c.version === 3 && parsed.t === 3 && parsed.qos === 0) other.packet.dup = 0
  if (sorted(parsed) !== sorted(other.packet)) return fail('they read different things')
  const again = theirs(Buffer.from(mine.again, 'hex'), c.version)
  if (c.version === 3 && parsed.t === 2 && again.packet) again.packet.sp = parsed.sp
  if (again.error || sorted(again.packet) !== sorted(parsed)) return fail(`what the codec writes is read as ${JSON.stringify(again)}`)
  tally.both++
}

const r = new Random(seed)
const cases = []
for (let i = 0; i < Number(count); i++) {
  const { sender, version, packet } = make(r)
  const wire = packet.cmd === 'connect' ? 0 : version
  const buf = mqtt.generate(packet, { protocolVersion: version })
  if (i % 4 === 0) {
    cases.push({ sender, version, wire, buf, damaged: false })
    continue
  }
  const damaged = mutate(r, buf)
  cases.push({ sender, version, wire, buf: damaged, damaged: true })
}
const lines = probeRun(cases)
if (lines.length !== cases.length) throw new Error('the codec did not answer every packet')
cases.forEach((c, i) => judge(c, lines[i]))

console.log(`${cases.length} packets, seed ${seed}: read alike by both ${tally.both}, refused by both ${tally.refused}, of another length ${tally.cut}`)
console.log('refused by the codec only:')
for (const [fault, n] of Object.entries(stricter).sort((a, b) => b[1] - a[1])) console.log(`  ${String(n).padStart(6)}  ${fault}  (${STRICTER[fault]})`)
console.log('refused by mqtt-packet only:')
for (const [message, { n, section }] of Object.entries(looser)) console.log(`  ${String(n).padStart(6)}  ${message}  (${section})`)
for (const text of failures.slice(0, 10)) console.log(`difference: ${text}`)
if (failures.length > 0) console.log(`${failures.length} differences without a reason`)
process.exit(failures.length > 0 ? 1 : 0)
