// The source of the page's traces: the file that contains it, or else the server.

import type { Source } from './client.ts';
import { FileSource } from './file_client.ts';
import { Server } from './server_client.ts';

/** True if the page is a file of `longpole report --html`: nothing can be replayed or saved. */
export const isFile = document.getElementById('longpole-trace') !== null;

export const source: Source = isFile ? new FileSource() : new Server();
