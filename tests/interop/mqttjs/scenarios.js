// SPDX-License-Identifier: Apache-2.0
// Scenarios with MQTT.js. usage: node scenarios.js NODE_MODULES SCENARIO JSON-ARGUMENTS
// Prints what was seen as one line of JSON and exits with 0; anything unexpected exits with 1.
'use strict'
const [modules, scenario, text] = process.argv.slice(2)
const mqtt = require(`${modules}/mqtt`)
const args = JSON.parse(text)
const topic = `${args.prefix}/t`
const clients = []

function fail (error) {
  console.log(error && error.stack ? error.stack : String(error))
  process.exit(1)
}

function connect (name, more = {}) {
  return new Promise((resolve, reject) => {
    const client = mqtt.connect({
      host: args.host,
      port: args.port,
      protocol: args.protocol || 'mqtt',
      ...(args.path ? { path: args.path } : {}),
      protocolVersion: args.version,
      protocolId: args.version === 3 ? 'MQIsdp' : 'MQTT',
      clientId: `${args.prefix}-${name}`.replace(/\//g, '-'),
      clean: true,
      reconnectPeriod: 0,
      connectTimeout: 10000,
      ...more
    })
    clients.push(client)
    client.messages = []
    client.waiting = []
    client.on('message', (t, payload, packet) => {
      client.messages.push(packet)
      client.waiting = client.waiting.filter(([count, done]) => client.messages.length < count || done())
    })
    client.on('error', reject)
    client.once('connect', connack => {
      client.present = Boolean(connack.sessionPresent)
      resolve(client)
    })
  })
}

function messages (client, count) {
  if (client.messages.length >= count) return Promise.resolve()
  return new Promise(resolve => client.waiting.push([count, resolve]))
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
const keep = { clean: false, ...(args.version === 5 ? { properties: { sessionExpiryInterval: 60 } } : {}) }
const numbers = client => client.messages.map(m => Number(m.payload.toString()))

const scenarios = {
  async order () {
    const [sub, pub] = [await connect('sub'), await connect('pub')]
    await sub.subscribeAsync(topic, { qos: args.qos })
    for (let i = 0; i < args.count; i += 8) {
      const some = []
      for (let j = i; j < Math.min(i + 8, args.count); j++) some.push(pub.publishAsync(topic, String(j), { qos: args.qos }))
      await Promise.all(some)
    }
    await messages(sub, args.count)
    return { numbers: numbers(sub), qos: [...new Set(sub.messages.map(m => m.qos))] }
  },

  async retained () {
    const pub = await connect('pub')
    await pub.publishAsync(topic, 'kept', { qos: 1, retain: true })
    const sub = await connect('sub')
    await sub.subscribeAsync(topic, { qos: 1 })
    await messages(sub, 1)
    await pub.publishAsync(topic, '', { qos: 1, retain: true })
    await messages(sub, 2)
    const late = await connect('late')
    await late.subscribeAsync(topic, { qos: 1 })
    await pause(200)
    const told = m => [m.payload.toString(), m.retain]
    return { first: told(sub.messages[0]), removed: told(sub.messages[1]), left: late.messages.map(told) }
  },

  async session () {
    const first = await connect('sub', keep)
    await first.subscribeAsync(topic, { qos: args.qos })
    await first.endAsync()
    const pub = await connect('pub')
    for (let i = 0; i < args.count; i++) await pub.publishAsync(topic, String(i), { qos: args.qos })
    const second = await connect('sub', keep)
    await messages(second, args.count)
    return { numbers: numbers(second), present: [first.present, second.present] }
  },

  async will () {
    const sub = await connect('sub')
    await sub.subscribeAsync(topic, { qos: args.qos })
    const gone = await connect('gone', { will: { topic, payload: 'gone', qos: args.qos, retain: false } })
    gone.stream.destroy()
    await messages(sub, 1)
    const [m] = sub.messages
    return { payload: m.payload.toString(), qos: m.qos, retain: m.retain }
  },

  async takeover () {
    const first = await connect('same')
    let reason = null
    first.on('disconnect', packet => { reason = packet.reasonCode })
    const closed = new Promise(resolve => first.once('close', () => resolve(true)))
    const second = await connect('same')
    const ended = await closed
    await second.subscribeAsync(topic, { qos: 1 })
    await second.publishAsync(topic, 'still here', { qos: 1 })
    await messages(second, 1)
    return { closed: ended, reason, echo: second.messages[0].payload.toString() }
  },

  async properties () {
    const [sub, pub] = [await connect('sub'), await connect('pub')]
    await sub.subscribeAsync(topic, { qos: 2, properties: { subscriptionIdentifier: 77 } })
    const properties = {
      contentType: 'a/b',
      responseTopic: 'r',
      correlationData: Buffer.from([0, 1, 255]),
      payloadFormatIndicator: true,
      userProperties: { a: ['1', '2'], b: '3' }
    }
    await pub.publishAsync(topic, 'x', { qos: 2, properties })
    await messages(sub, 1)
    const got = { ...sub.messages[0].properties }
    got.userProperties = { ...got.userProperties }
    got.correlationData = got.correlationData.toString('hex')
    return got
  },

  async aliases () {
    const sub = await connect('sub', { properties: { topicAliasMaximum: 5 } })
    const pub = await connect('pub', { autoUseTopicAlias: true, autoAssignTopicAlias: true })
    await sub.subscribeAsync(`${args.prefix}/#`, { qos: 1 })
    for (let i = 0; i < args.count; i++) await pub.publishAsync(`${topic}${i % 7}`, String(i), { qos: 1 })
    await messages(sub, args.count)
    return {
      topics: sub.messages.every(m => m.topic === `${topic}${Number(m.payload.toString()) % 7}` || m.properties.topicAlias),
      numbers: numbers(sub)
    }
  }
}

setTimeout(() => fail('the scenario did not end'), 25000).unref()
scenarios[scenario]().then(seen => {
  console.log(JSON.stringify(seen))
  for (const client of clients) client.end(true)
  process.exit(0)
}, fail)
