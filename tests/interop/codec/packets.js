// SPDX-License-Identifier: Apache-2.0
// packets.js: random packets as mqtt-packet's objects, valid in their version, and random damage to their bytes. All from
// one seed.
'use strict'

class Random {
  constructor (seed) { this.state = BigInt.asUintN(64, BigInt(seed)) }

  next () { // splitmix64
    this.state = BigInt.asUintN(64, this.state + 0x9e3779b97f4a7c15n)
    let z = this.state
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n)
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn)
    return Number((z ^ (z >> 31n)) >> 33n)
  }

  below (n) { return this.next() % n }
  chance (n) { return this.below(n) === 0 }
  pick (list) { return list[this.below(list.length)] }
}

const WORDS = ['a', 'b', 'device', 'é', '漢字', '😀', 'x y', '-', 'UP', '0']
const text = (r, max = 4) => Array.from({ length: r.below(max) }, () => r.pick(WORDS)).join('')
const someText = (r) => r.pick(WORDS) + text(r)
const topic = (r) => Array.from({ length: 1 + r.below(4) }, () => text(r, 3)).join('/') + r.pick(WORDS)
const bytes = (r, max = 40) => Buffer.from(Array.from({ length: r.below(r.chance(10) ? max * 20 : max) }, () => r.below(256)))
const id = (r) => 1 + r.below(65535)
const u32 = (r) => r.pick([0, 1, 255, 65536, 0xffffffff, r.below(0x7fffffff)])
const bool = (r) => r.chance(2)

function filter (r) {
  const levels = Array.from({ length: 1 + r.below(4) }, () => r.pick(['+', someText(r), someText(r), '']))
  if (r.chance(3)) levels.push('#')
  const plain = levels.join('/') || '#'
  return r.chance(6) ? `$share/${r.pick(['g', 'group'])}/${plain}` : plain
}

// name: [where it may stand, value]
const PROPERTIES = {
  payloadFormatIndicator: ['publish will', bool],
  messageExpiryInterval: ['publish will', u32],
  contentType: ['publish will', text],
  responseTopic: ['publish will', topic],
  correlationData: ['publish will', bytes],
  topicAlias: ['publish', id],
  willDelayInterval: ['will', u32],
  sessionExpiryInterval: ['connect disconnect', u32],
  receiveMaximum: ['connect connack', id],
  maximumPacketSize: ['connect connack', (r) => 1 + r.below(0x7fffffff)],
  topicAliasMaximum: ['connect connack', (r) => r.below(65536)],
  requestResponseInformation: ['connect', bool],
  requestProblemInformation: ['connect', bool],
  maximumQoS: ['connack', (r) => r.below(2)],
  retainAvailable: ['connack', bool],
  assignedClientIdentifier: ['connack', text],
  wildcardSubscriptionAvailable: ['connack', bool],
  subscriptionIdentifiersAvailable: ['connack', bool],
  sharedSubscriptionAvailable: ['connack', bool],
  serverKeepAlive: ['connack', (r) => r.below(65536)],
  responseInformation: ['connack', text],
  serverReference: ['connack', text],
  subscriptionIdentifier: ['subscribe', (r) => 1 + r.below(r.pick([127, 16000, 268435455]))],
  reasonString: ['connack puback pubrec pubrel pubcomp suback unsuback disconnect auth', text],
  authenticationMethod: ['auth', someText],
  userProperties: ['connect connack publish will puback pubrec pubrel pubcomp subscribe suback unsubscribe unsuback disconnect auth', (r) => {
    const pairs = {}
    for (let i = r.below(4); i >= 0; i--) pairs[text(r)] = r.chance(4) ? [someText(r), someText(r)] : text(r)
    return pairs
  }]
}

function properties (r, place, version) {
  if (version !== 5 || r.chance(3)) return undefined
  const list = {}
  for (const [name, [places, make]] of Object.entries(PROPERTIES)) {
    if (places.split(' ').includes(place) && r.chance(2)) list[name] = make(r)
  }
  if (place === 'auth') list.authenticationMethod = someText(r)
  return list
}

const REASONS = {
  puback: [0, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99],
  pubrel: [0, 0x92],
  suback: [0, 1, 2, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e, 0xa1, 0xa2],
  unsuback: [0, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91],
  connack: [0, 0x80, 0x81, 0x84, 0x85, 0x87, 0x8a, 0x95, 0x9f],
  disconnectC: [0, 4, 0x80, 0x81, 0x82, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
  disconnectS: [0, 0x80, 0x81, 0x82, 0x87, 0x89, 0x8b, 0x8d, 0x8e, 0x97, 0x98, 0x9c, 0xa0]
}

function connect (r, version) {
  const packet = {
    cmd: 'connect',
    protocolId: version === 3 ? 'MQIsdp' : 'MQTT',
    protocolVersion: version,
    clean: bool(r),
    keepalive: r.below(65536),
    clientId: someText(r),
    properties: properties(r, 'connect', version)
  }
  if (version !== 5 && bool(r)) packet.bridgeMode = true
  if (bool(r)) packet.username = text(r)
  if (packet.username !== undefined && bool(r)) packet.password = bytes(r)
  if (bool(r)) {
    packet.will = { topic: topic(r), payload: bytes(r), qos: r.below(3), retain: bool(r), properties: properties(r, 'will', version) }
  }
  return packet
}

function acknowledgement (r, cmd, version, sender) {
  let codes = REASONS.pubrel
  // 3.4.2.1: 0x10 is sent only by the server.
  if (cmd === 'puback' || cmd === 'pubrec') codes = sender === 'S' ? [0x10, ...REASONS.puback] : REASONS.puback
  const packet = { cmd, messageId: id(r) }
  if (version === 5) Object.assign(packet, { reasonCode: r.pick(codes), properties: properties(r, cmd, version) })
  return packet
}

const MAKERS = {
  connect,
  connack (r, version) {
    const code = r.chance(2) ? 0 : version === 5 ? r.pick(REASONS.connack) : r.below(6)
    const packet = { cmd: 'connack', sessionPresent: code === 0 && version > 3 && bool(r), properties: properties(r, 'connack', version) }
    packet[version === 5 ? 'reasonCode' : 'returnCode'] = code
    return packet
  },
  publish (r, version) {
    const qos = r.below(3)
    const packet = { cmd: 'publish', topic: topic(r), payload: bytes(r), qos, retain: bool(r), dup: qos > 0 && bool(r) }
    if (qos > 0) packet.messageId = id(r)
    packet.properties = properties(r, 'publish', version)
    return packet
  },
  puback: (r, version, sender) => acknowledgement(r, 'puback', version, sender),
  pubrec: (r, version, sender) => acknowledgement(r, 'pubrec', version, sender),
  pubrel: (r, version, sender) => acknowledgement(r, 'pubrel', version, sender),
  pubcomp: (r, version, sender) => acknowledgement(r, 'pubcomp', version, sender),
  subscribe (r, version) {
    const one = () => {
      const topic = filter(r)
      const options = { topic, qos: r.below(3) }
      if (version === 5) Object.assign(options, { nl: !topic.startsWith('$share/') && bool(r), rap: bool(r), rh: r.below(3) })
      return options
    }
    return { cmd: 'subscribe', messageId: id(r), subscriptions: Array.from({ length: 1 + r.below(4) }, one), properties: properties(r, 'subscribe', version) }
  },
  suback (r, version) {
    const codes = version === 5 ? REASONS.suback : [0, 1, 2, 0x80]
    const granted = Array.from({ length: 1 + r.below(4) }, () => r.pick(version === 3 ? [0, 1, 2] : codes))
    return { cmd: 'suback', messageId: id(r), granted, properties: properties(r, 'suback', version) }
  },
  unsubscribe: (r, version) => ({ cmd: 'unsubscribe', messageId: id(r), unsubscriptions: Array.from({ length: 1 + r.below(4) }, () => filter(r)), properties: properties(r, 'unsubscribe', version) }),
  unsuback (r, version) {
    const packet = { cmd: 'unsuback', messageId: id(r), properties: properties(r, 'unsuback', version) }
    packet.granted = version === 5 ? Array.from({ length: 1 + r.below(4) }, () => r.pick(REASONS.unsuback)) : []
    return packet
  },
  pingreq: () => ({ cmd: 'pingreq' }),
  pingresp: () => ({ cmd: 'pingresp' }),
  disconnect (r, version, sender) {
    if (version !== 5) return { cmd: 'disconnect' }
    const packet = { cmd: 'disconnect', reasonCode: r.pick(REASONS['disconnect' + sender]), properties: properties(r, 'disconnect', version) }
    if (sender === 'S' && packet.properties) delete packet.properties.sessionExpiryInterval
    return packet
  },
  auth: (r, version) => ({ cmd: 'auth', reasonCode: r.pick([0x18]), properties: { ...properties(r, 'auth', version), authenticationMethod: someText(r) } })
}

const CLIENT = ['connect', 'publish', 'puback', 'pubrec', 'pubrel', 'pubcomp', 'subscribe', 'unsubscribe', 'pingreq', 'disconnect', 'auth']
const SERVER = ['connack', 'publish', 'puback', 'pubrec', 'pubrel', 'pubcomp', 'suback', 'unsuback', 'pingresp', 'disconnect', 'auth']

// { sender, version, packet }
function make (r) {
  const sender = r.pick(['C', 'S'])
  const version = r.pick([3, 4, 5, 5])
  let kinds = sender === 'C' ? CLIENT : SERVER
  if (version !== 5) kinds = kinds.filter((k) => k !== 'auth' && !(k === 'disconnect' && sender === 'S'))
  return { sender, version, packet: MAKERS[r.pick(kinds)](r, version, sender) }
}

function varint (n) {
  const out = []
  do {
    const low = n % 128
    n = Math.floor(n / 128)
    out.push(n > 0 ? low | 0x80 : low)
  } while (n > 0)
  return Buffer.from(out)
}

// Damage. Half of the time the remaining length is made right again, so that what is inside is looked at.
function mutate (r, buf) {
  let head = 1
  while (buf[head] & 0x80) head++
  let body = Buffer.from(buf.subarray(head + 1))
  let first = buf[0]
  for (let i = r.below(3); i >= 0; i--) {
    const at = body.length > 0 ? r.below(body.length) : 0
    switch (r.below(7)) {
      case 0: if (body.length) body[at] ^= 1 << r.below(8); break
      case 1: if (body.length) body[at] = r.pick([0, 1, 2, 3, 0x7f, 0x80, 0xc0, 0xff, r.below(256)]); break
      case 2: body = Buffer.concat([body.subarray(0, at), Buffer.from([r.below(256)]), body.subarray(at)]); break
      case 3: if (body.length) body = Buffer.concat([body.subarray(0, at), body.subarray(at + 1)]); break
      case 4: body = body.subarray(0, at); break
      case 5: body = Buffer.concat([body.subarray(0, at), body.subarray(Math.max(0, at - r.below(6)), at), body.subarray(at)]); break
      default: if (r.chance(3)) first ^= 1 << r.below(8)
    }
    body = Buffer.from(body)
  }
  const length = r.chance(2) ? varint(body.length) : buf.subarray(1, head + 1)
  return Buffer.concat([Buffer.from([first]), length, body])
}

module.exports = { Random, make, mutate }
