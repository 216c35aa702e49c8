// Requests to the studio's own server. A failure is an Error whose message is a sentence for the user.

export class ApiError extends Error {
  /** `status` is 0 where no answer came. */
  constructor(message, status) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

export const SILENT = "The studio does not answer: its server has stopped. Start it again with “bertworks studio”; what you typed is still here.";

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(SILENT, 0);
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(`The studio's answer cannot be read (status ${response.status}).`, response.status);
  }
  if (!response.ok) throw new ApiError(sentence(body.error ?? `The studio refused this (status ${response.status}).`), response.status);
  return body;
}

function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/**
 * `onError(error)` and `onDone()` let the shell show what happened; the error is thrown on to the caller all the same.
 * An answer to what was asked before a failure is no news of it: `onDone` is not told.
 */
export function makeApi({ onError = () => {}, onDone = () => {} } = {}) {
  let asked = 0;
  let askedAtFailure = 0;
  async function run(path, options) {
    asked += 1;
    const own = asked;
    try {
      const answer = await request(path, options);
      if (own > askedAtFailure) onDone();
      return answer;
    } catch (error) {
      if (error instanceof ApiError) {
        askedAtFailure = asked;
        onError(error);
      }
      throw error;
    }
  }
  return {
    get: (path, { signal } = {}) => run(path, { signal }),
    post: (path, body, { signal } = {}) =>
      run(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }),
  };
}

/**
 * Run only the newest of several calls: `const ask = latest(); const answer = await ask((signal) => api.post(..., {signal}))`.
 * Older ones give null, whatever comes of them, and so do all that run when `ask.cancel()` is called. `show(busy)` is told whether one runs.
 */
export function latest(show = () => {}) {
  let controller = null;
  const ask = async (run) => {
    controller?.abort();
    const own = new AbortController();
    controller = own;
    show(true);
    try {
      const answer = await run(own.signal);
      return controller === own ? answer : null;
    } catch (error) {
      if (controller !== own) return null;
      throw error;
    } finally {
      if (controller === own) show(false);
    }
  };
  ask.cancel = () => {
    controller?.abort();
    controller = null;
    show(false);
  };
  return ask;
}
