// Package seal encrypts payloads at rest with AES-256-GCM. A sealed payload is a JSON object again, an envelope, so it is
// stored, read and moved like any other payload, and a reader knows it by its shape. Only the payload is covered: names,
// transaction ids and times stay readable, because the database works with them.
//
// The package knows nothing of queues, of who may read what, or of where keys come from.
package seal
