"""Fine-tuning: from labelled examples to a trained, evaluated, explained model.

config, defaults   what can be set, and sensible values by the number of examples and the size of the model
feed, adapt, lora  a step's batches; which weights learn, and when
fit                one training in memory: encoded examples in, weights and predictions out
run, seeds, search a whole run from files, several seeds, and the search for better settings
result, finish     everything that is known at the end, and the directory that is made of it
baseline, report   what a simple model reaches; the page and the card that explain the result
frozen, probe      scikit-learn on frozen features; which layer knows what
"""
