"""The library as a classifier: scikit-learn estimators, a torch module, and the learner that grows beneath them."""
