#!/usr/bin/env node
// Starts the haft of this machine's platform package in the place of this process, or, where Node.js cannot do that,
// as its child: with its streams, the signals that this process gets, and its end as this one's.
'use strict';

const { spawn } = require('node:child_process');
const tty = require('node:tty');

const platform = `${process.platform}-${process.arch}`;

function program() {
  try {
    return require.resolve(`@haft/${platform}/haft`);
  } catch {
    console.error(
      `haft: the package @haft/${platform} is not installed. Either haft is not made for this platform, or ` +
        'optional dependencies were left out: install again without --omit=optional.',
    );
    process.exit(1);
  }
}

function asChild(haft, args) {
  const child = spawn(haft, args, { stdio: 'inherit' });
  // A terminal sends these to both by itself.
  const atTerminal = [0, 1, 2].some((stream) => tty.isatty(stream)) ? ['SIGINT', 'SIGQUIT'] : [];
  const signals = ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'];
  for (const signal of signals) {
    process.on(signal, () => atTerminal.includes(signal) || child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`haft: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const haft = program();
const args = process.argv.slice(2);
// It warns that it is experimental only where it fails.
if (typeof process.execve === 'function') {
  try {
    process.execve(haft, [haft, ...args], process.env);
  } catch {
    asChild(haft, args);
  }
} else {
  asChild(haft, args);
}
