// release-dry-run.cjs KEY BUNDLE FILE: whether the bundle is a statement about the file that the owner of the key signed, by the
// verifier that npm has.
'use strict';

const { createHash, createPublicKey } = require('node:crypto');
const fs = require('node:fs');
const { bundleFromJSON } = require('@sigstore/bundle');
const { Verifier, toSignedEntity, toTrustMaterial } = require('@sigstore/verify');

const [key, file, artefact] = process.argv.slice(2);
const publicKey = createPublicKey(fs.readFileSync(key));
const nobody = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
const material = toTrustMaterial(nobody, () => ({ publicKey, validFor: () => true }));
const bundle = bundleFromJSON(JSON.parse(fs.readFileSync(file, 'utf8')));
try {
  new Verifier(material, { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 }).verify(toSignedEntity(bundle));
} catch (error) {
  console.error(`the signature of ${file} is not right: ${error.message}`);
  process.exit(1);
}
// A verifier of bundles knows no file: npm compares the subject itself as well.
const { subject } = JSON.parse(bundle.content.dsseEnvelope.payload);
const digest = createHash('sha256').update(fs.readFileSync(artefact)).digest('hex');
if (subject.length !== 1 || subject[0].digest.sha256 !== digest) {
  console.error(`${artefact} is not what ${file} states`);
  process.exit(1);
}
