"""Trains digits.npz, and picks digits_samples.npz: the network that studies/repurpose.yaml serves.

The 1,797 images of digits are those that scikit-learn ships with.  Run in this folder.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

images, labels = load_digits(return_X_y=True)
train, test, known, unknown = train_test_split(images / 16, labels, test_size=0.5, random_state=0)
net = MLPClassifier((96, 64), max_iter=60, random_state=0).fit(train, known)
layers = zip(net.coefs_, net.intercepts_, strict=True)
weights = {}
for number, (weight, bias) in enumerate(layers):
    weights |= {f"layer{number}.weight": weight.T, f"layer{number}.bias": bias}
np.savez_compressed(
    "digits.npz", **{name: each.astype(np.float16) for name, each in weights.items()}
)
np.savez_compressed(
    "digits_samples.npz",
    inputs=test.astype(np.float16),
    labels=unknown.astype(np.uint8),
    calibration=train[:300].astype(np.float16),
)
print(f"{net.score(test, unknown):.2%} accurate")
