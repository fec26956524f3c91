"""A frozen backbone of one's own, and a head on it that learns new classes without forgetting the old ones.

The backbone, a small convolutional network, is trained on the digits 0 to 3 as usual and then left alone. The head is
given the digits two by two, the last six of which the backbone has never seen.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from efc import EFCHead

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
split = train_test_split((images / 16).astype("float32"), labels, test_size=0.25, random_state=0, stratify=labels)
x_train, x_test, y_train, y_test = (torch.as_tensor(part) for part in split)

backbone = nn.Sequential(
    nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten(),
)  # fmt: skip
n_features = 32 * 3 * 3


def loader(classes: list[int]) -> DataLoader:
    """The training data of some classes, in batches."""
    mine = torch.isin(y_train, torch.tensor(classes))
    return DataLoader(TensorDataset(x_train[mine], y_train[mine]), batch_size=64, shuffle=True)


first = nn.Linear(n_features, 4)
optimiser = torch.optim.Adam([*backbone.parameters(), *first.parameters()], lr=3e-3)
for _ in range(5):
    for x, y in loader([0, 1, 2, 3]):
        optimiser.zero_grad()
        nn.functional.cross_entropy(first(backbone(x)), y).backward()
        optimiser.step()
backbone.requires_grad_(False).eval()

head = EFCHead(n_features, hidden=(300,))
model = nn.Sequential(backbone, head)  # head.state_dict(), model.to(device) and so on work as usual
for task in ([0, 1], [2, 3], [4, 5], [6, 7], [8, 9]):
    head.learn_task((backbone(x), y) for x, y in loader(task))
    met = torch.isin(y_test, torch.tensor(head.classes))
    right = torch.tensor(head.classes)[model(x_test[met]).argmax(1)] == y_test[met]
    print(f"after {task}: {100 * right.double().mean():.1f} % of the {len(head.classes)} classes met so far")

known = torch.isin(y_test, torch.tensor([0, 1]))
told = head.predict(backbone(x_test[known]), task=0) == y_test[known]
print(f"the first task's samples, told that they are of the first task: {100 * told.double().mean():.1f} %")
