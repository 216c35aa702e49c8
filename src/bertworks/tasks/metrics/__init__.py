"""How good predictions are, in numpy: the same figures as scikit-learn, scipy, seqeval and the official SQuAD scripts.

classification   accuracy, precision, recall, F1, Matthews correlation, confusion matrix; classes or several labels a row
ranking          Pearson, Spearman, area under the ROC curve
numbers          squared, absolute and Poisson errors of predicted numbers
entities         precision, recall and F1 of labelled spans
squad            exact match and F1 of answers, with and without unanswerable questions
calibration      probabilities: temperature, thresholds, reliability
"""
