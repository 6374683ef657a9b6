// The suite has no way to say a token, and the gate lets nobody in without one: this adds it to every request.
import { Agent, setGlobalDispatcher } from "undici";

const authorization = `Bearer ${process.env.CONFORMANCE_TOKEN}`;

function withToken(headers) {
  if (Array.isArray(headers)) return [...headers, "authorization", authorization];
  const pairs = typeof headers?.[Symbol.iterator] === "function" ? [...headers] : Object.entries(headers ?? {});
  return { ...Object.fromEntries(pairs), authorization };
}

const add = (dispatch) => (options, handler) =>
  dispatch({ ...options, headers: withToken(options.headers) }, handler);

// A connection that is kept may be hung up on while this process gets no time to notice, so none is kept for long.
setGlobalDispatcher(new Agent({ keepAliveTimeout: 1 }).compose(add));
