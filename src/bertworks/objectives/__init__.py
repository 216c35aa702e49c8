"""What can be trained on plain text: each objective turns sequences into a batch and a batch into losses.

base              what an objective is: sums and counts, never means
vocabulary        cross entropy over a vocabulary in little memory
masked_lm         BERT, RoBERTa, ERNIE, ModernBERT
sentence_pairs    BERT's next sentence, ALBERT's sentence order, with masked LM
replaced_tokens   ELECTRA
causal_lm         GPT, recurrent language models
bilm              ELMo and character language models: both neighbours of every token
distill, student  DistilBERT, and transfer from a teacher without a head
"""
