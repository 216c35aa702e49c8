"""The studio: a local page to look inside models. Routes in Python, views as plain ES modules in `static/`.

app          the web application: pages, security headers, errors as sentences
models       the loaded models, by name
attention    what every head looks at              views/attention.js
cloze        what stands behind a mask             views/cloze.js
tokens       how tokenizers cut a text             views/tokens.js
meaning      maps of embeddings, word vectors      views/meaning.js
tasks        what fine-tuned models say, and why   views/tasks.js
runs         curves of training runs               views/runs.js

Nothing is fetched from elsewhere, and nothing has to be built: the browser reads the modules as they lie here.
"""
